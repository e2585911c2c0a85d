//! The types of parameters, and the Rust types that have their ABI.
//!
//! Handles and what pointers point to keep their names in the list, for its readers and for hooks
//! that look at them.

/// Names and Rust types. `Location` and those after it, up to the pointers, are structures that are
/// passed by value.
const TYPES: [(&str, &str); 31] = [
    ("u8", "u8"),
    ("u16", "u16"),
    ("u32", "u32"),
    ("u64", "u64"),
    ("i32", "i32"),
    ("usize", "usize"),
    ("device_ptr", "u64"),
    ("array", "Handle"),
    ("context", "Handle"),
    ("event", "Handle"),
    ("function", "Handle"),
    ("graph", "Handle"),
    ("graph_exec", "Handle"),
    ("graph_node", "Handle"),
    ("green_context", "Handle"),
    ("handle", "Handle"),
    ("kernel", "Handle"),
    ("library", "Handle"),
    ("mipmapped_array", "Handle"),
    ("module", "Handle"),
    ("pool", "Handle"),
    ("stream", "Handle"),
    ("location", "Location"),
    ("ipc_handle", "Bytes64"),
    ("dim3", "Dim3"),
    ("extent", "Words3"),
    ("pitched_ptr", "Words4"),
    ("egl_frame", "Words8"),
    ("*launch_config", "Handle"),
    ("*launch_params", "Handle"),
    ("*instantiate_params", "Handle"),
];

/// The Rust type of a parameter of this type; `None` if the list may not use it.
pub(crate) fn rust(name: &str) -> Option<String> {
    if let Some((_, rust)) = TYPES.iter().find(|(known, _)| *known == name) {
        return Some((*rust).to_owned());
    }
    let to = name.strip_prefix('*')?;
    if to == "void" { Some("Handle".to_owned()) } else { Some(format!("*mut {}", rust(to)?)) }
}
