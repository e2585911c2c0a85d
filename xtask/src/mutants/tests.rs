//! The chore on a workspace of one tiny crate, whose tests are plain ones.

use super::*;

const WORKSPACE: &str = "[workspace]\nmembers = ['tiny']\nresolver = '3'\n\
                         [profile.models]\ninherits = 'dev'\n";
const MANIFEST: &str = "[package]\nname = 'tiny'\nversion = '0.1.0'\nedition = '2024'\n";
const LOCK: &str = "version = 4\n\n[[package]]\nname = \"tiny\"\nversion = \"0.1.0\"\n";
const LIB: &str = "mod double;\n#[cfg(test)]\nmod checks;\n";
const DOUBLE: &str = "pub fn double(x: u32) -> u32 {\n    x * 2\n}\n";
const CHECKS: &str = "use crate::double::double;\n\
                      #[test]\nfn of_one() {\n    assert_eq!(double(1), 2, \"not doubled\");\n}\n\
                      #[test]\nfn of_two() {\n    assert_eq!(double(2), 4, \"not doubled\");\n}\n\
                      #[test]\nfn of_nothing() {}\n";

/// The mutant squares: of 2, that is the same.
fn list(tests: &str) -> String {
    format!(
        "module = 'checks'\n[[mutant]]\nname = 'square'\nfile = 'tiny/src/double.rs'\ntests = [{tests}]\n\
         says = 'not doubled'\nfind = 'x * 2'\nwith = 'if mutant(\"square\") {{ x * x }} else {{ x * 2 }}'\n"
    )
}

/// Runs the chore with a list in which the mutant has these tests.
fn tried(test: &str, tests: &str) -> Result<String> {
    let work = target_dir().join("tmp/mutants").join(test);
    if work.exists() {
        fs::remove_dir_all(&work).expect("it can be removed");
    }
    let root = work.join("workspace");
    let list = list(tests);
    let files = [
        ("Cargo.toml", WORKSPACE),
        ("Cargo.lock", LOCK),
        ("tiny/Cargo.toml", MANIFEST),
        ("tiny/src/lib.rs", LIB),
        ("tiny/src/double.rs", DOUBLE),
        ("tiny/src/checks.rs", CHECKS),
        ("testkit/mutants/tiny.toml", &list),
    ];
    for (path, text) in files {
        let path = root.join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("it can be made");
        fs::write(path, text).expect("it can be written");
    }
    run_on(&root, &work, &Options::default())
}

#[test]
fn a_mutant_that_is_noticed_passes() {
    let summary = tried("noticed", "'of_one'").expect("it is noticed");
    assert!(summary.starts_with("1 mutants noticed in 1 trials"), "{summary}");
}

#[test]
fn a_mutant_that_is_not_noticed_fails() {
    let error = tried("unnoticed", "'of_one', 'of_two'").expect_err("2 × 2 is 2 + 2");
    assert!(error.to_string().starts_with("1 of 2 trials failed"), "{error}");
}

#[test]
fn a_mutant_that_is_not_reached_fails() {
    let error = tried("unreached", "'of_nothing'").expect_err("nothing is doubled");
    assert!(error.to_string().starts_with("1 of 1 trials failed"), "{error}");
}

#[test]
fn a_test_that_does_not_exist_fails() {
    let error = tried("unknown", "'of_three'").expect_err("there is none");
    assert!(error.to_string().contains("there is no test `checks::of_three`"), "{error}");
}

#[test]
fn messages_of_cargo_are_understood() {
    let program = |id: &str| {
        let line = format!("{{\"package_id\":\"{id}\",\"executable\":\"/t/deps/a-1\"}}");
        test_program(&serde_json::from_str(&line).expect("json"))
    };
    let named = |name: &str| Some((name.to_owned(), PathBuf::from("/t/deps/a-1")));
    assert_eq!(program("path+file:///x/runtime#xsched@0.1.0"), named("xsched"));
    assert_eq!(program("path+file:///x/core#0.1.0"), named("core"));
    assert_eq!(test_program(&serde_json::json!({"executable": null})), None);
}
