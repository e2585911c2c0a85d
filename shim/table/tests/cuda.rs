//! The list of CUDA's functions as it is.

use std::path::Path;

use xsched_shim_table::{Class, DefaultStream, Function, List};

fn list() -> List {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../cuda/functions.toml");
    List::parse(&std::fs::read_to_string(path).expect("the list")).expect("a list without faults")
}

fn find<'a>(list: &'a List, name: &str) -> &'a Function {
    &list.functions[list.index(name).unwrap_or_else(|| panic!("{name} is not listed"))]
}

/// The name without what says its ABI version.
fn stem(name: &str) -> &str {
    let name = name.strip_suffix("_ptsz").or(name.strip_suffix("_ptds")).unwrap_or(name);
    match name.rsplit_once("_v") {
        Some((stem, digit)) if digit.bytes().all(|byte| byte.is_ascii_digit()) => stem,
        _ => name,
    }
}

#[test]
fn versions_of_a_function_are_of_one_class() {
    let list = list();
    for function in &list.functions {
        let first = find(&list, stem(&function.name));
        let title = |function: &Function| &list.groups[function.group].title;
        assert_eq!(title(function), title(first), "{}", function.name);
    }
}

#[test]
fn what_is_named_asynchronous_is_a_launch() {
    for function in &list().functions {
        if stem(&function.name).ends_with("Async") {
            assert_eq!(function.class, Class::Launch, "{}", function.name);
        }
    }
}

#[test]
fn functions_with_a_stream_are_not_forwarded_unseen() {
    let list = list();
    let per_thread = |function: &&Function| function.default_stream() == DefaultStream::PerThread;
    for function in list.functions.iter().filter(per_thread) {
        let asks = list.groups[function.group].title == "Properties of streams";
        assert!(asks || function.class != Class::Forwarded, "{}", function.name);
    }
}

#[test]
fn the_functions_that_frameworks_call_have_their_classes() {
    let list = list();
    let expected = [
        ("cuLaunchKernel", Class::Launch),
        ("cuLaunchKernelEx_ptsz", Class::Launch),
        ("cuLaunchHostFunc_v2", Class::Launch),
        ("cuMemcpyHtoD_v2", Class::Launch),
        ("cuMemcpyBatchAsync_v2_ptsz", Class::Launch),
        ("cuMemsetD8_v2_ptds", Class::Launch),
        ("cuMemFreeAsync", Class::Launch),
        ("cuStreamAddCallback", Class::Launch),
        ("cuEventRecord", Class::Ordered),
        ("cuStreamWaitEvent_ptsz", Class::Ordered),
        ("cuMemFree_v2", Class::Waits),
        ("cuModuleLoadData", Class::Waits),
        ("cuCtxSynchronize_v2", Class::Waits),
        ("cuStreamBeginCapture_v2", Class::Lifetime),
        ("cuStreamDestroy_v2", Class::Lifetime),
        ("cuGraphInstantiateWithFlags", Class::Lifetime),
        ("cuStreamQuery", Class::Forwarded),
        ("cuGetProcAddress_v2", Class::Forwarded),
    ];
    for (name, class) in expected {
        assert_eq!(find(&list, name).class, class, "{name}");
    }
}

#[test]
fn launches_say_where_their_stream_is() {
    let rust = list().rust();
    for (function, place) in [
        ("cuLaunchKernel", "handle legacy stream"),
        ("cuLaunchKernel_ptsz", "handle per_thread stream"),
        ("cuLaunchKernelEx", "config legacy config"),
        ("cuLaunchKernelEx_ptsz", "config per_thread config"),
        ("cuMemcpyHtoD_v2", "none legacy"),
        ("cuMemcpyHtoD_v2_ptds", "none per_thread"),
        ("cuEGLStreamConsumerAcquireFrame", "elsewhere"),
        ("cuLaunchCooperativeKernelMultiDevice", "elsewhere"),
    ] {
        let name = format!(" {function}(");
        let line = rust.lines().find(|line| line.contains(&name)).expect("a signature");
        assert!(line.trim().starts_with(&format!("launch [{place}] ")), "{line}");
    }
}
