//! Lists with faults, and what becomes of lists without.

use xsched_shim_table::{Class, DefaultStream, Error, List, Problem};

const HEAD: &str = "[[group]]\ntitle = 'a'\nclass = 'waits'\nreason = 'because'\n";

/// Returns the problem of a group of these functions, which are in line 5.
fn problem(functions: &str) -> Problem {
    let error = List::parse(&format!("{HEAD}functions = [{functions}]\n")).expect_err(functions);
    assert_eq!(error.line, 5, "{functions}");
    error.problem
}

#[test]
fn faults_of_entries_are_found() {
    for wrong in
        ["a{_v2(x: u8)", "a{_v2}x(y: u8)", "a(x u8)", "a(x: u8", "a b()", "a() since 12", ""]
    {
        assert_eq!(problem(&format!("'{wrong}'")), Problem::Entry(wrong.into()));
    }
    assert_eq!(problem("'a(x: int)'"), Problem::Type("int".into()));
    assert_eq!(problem("'a(x: **int)'"), Problem::Type("**int".into()));
    assert_eq!(problem("'a since 12.3'"), Problem::Parameters("a since 12.3".into()));
}

#[test]
fn faults_of_lists_are_found_where_they_are() {
    let fails = |text: &str| List::parse(text).expect_err(text);
    let twice = format!("{HEAD}functions = ['f{{,_v2}}()']\n{HEAD}functions = [\n 'f_v2()']\n");
    let problem = Problem::Duplicate { name: "f_v2".into(), first: 5 };
    assert_eq!(fails(&twice), Error { line: 11, problem });
    let problem = Problem::Class("wait".into());
    let wrong = HEAD.replace("'waits'", "'wait'") + "functions = []\n";
    assert_eq!(fails(&wrong), Error { line: 3, problem });
    let problem = Problem::Reason("a".into());
    for reason in ["reason = ' '\n", ""] {
        let wrong = HEAD.replace("reason = 'because'\n", reason) + "functions = []\n";
        assert_eq!(fails(&wrong), Error { line: 2, problem: problem.clone() });
    }
    let problem = Problem::Stream("f".into());
    let wrong = HEAD.replace("'waits'", "'launch'") + "functions = ['f(a: u8)']\n";
    assert_eq!(fails(&wrong), Error { line: 5, problem });
    let error = fails(&format!("{HEAD}functions = []\ncolour = 1\n"));
    assert!(error.line == 6 && error.to_string().contains("unknown field `colour`"), "{error}");
    let error = fails("[[group]\n");
    assert!(error.line == 1 && matches!(error.problem, Problem::Toml(_)), "{error}");
}

const GOOD: &str = "
[left_out]
reason = 'debuggers'
prefixes = ['dbg']
[[group]]
title = 'Forwarded ones'
class = 'forwarded'
reason = 'they ask'
functions = ['zAsk', 'bAsk{,_v2} since 12.4']
[[group]]
title = 'Launches'
class = 'launch'
reason = '''they
  run'''
stream = 'config.stream'
functions = ['run{,_ptsz}(config: *void, at: *device_ptr, n: usize)']
";

#[test]
fn a_list_without_faults_is_read() {
    let list = List::parse(GOOD).expect("a list");
    let names: Vec<_> = list.functions.iter().map(|known| known.name.as_str()).collect();
    assert_eq!(names, ["bAsk", "bAsk_v2", "run", "run_ptsz", "zAsk"]);
    assert_eq!((list.index("run"), list.index("walk")), (Some(2), None));
    assert_eq!(list.functions[0].since, Some((12, 4)));
    assert_eq!(list.functions[3].default_stream(), DefaultStream::PerThread);
    assert_eq!(list.functions[2].default_stream(), DefaultStream::Legacy);
    assert_eq!((list.groups[1].class, list.groups[1].reason.as_str()), (Class::Launch, "they run"));
}

#[test]
fn it_is_written_as_rust_and_as_markdown() {
    let list = List::parse(GOOD).expect("a list");
    let rust = list.rust();
    let signature = "launch [elsewhere] 2 run(config: Handle, at: *mut u64, n: usize);";
    for part in ["COUNT: usize = 5", "c\"bAsk_v2\"", "Class::Launch", "4 zAsk;", signature] {
        assert!(rust.contains(part), "{part}: {rust}");
    }
    let page = list.markdown();
    let parts =
        ["| [launch](#launch) | 2 |", "## launch\n\n### Launches\n\nthey run", "`run{,_ptsz}`"];
    for part in parts.into_iter().chain(["`bAsk{,_v2}` (12.4)", "`dbg…`", "`config.stream`"]) {
        assert!(page.contains(part), "{part}: {page}");
    }
}
