//! The list as Rust source, for an interposer's build script.

use crate::entry::{Class, DefaultStream, Function, Parameter};
use crate::list::List;

impl List {
    /// Rust source: how many functions there are, their names in C, their classes and whether they
    /// are launches that tell the program that something has run, sorted by name, what the names
    /// begin with that are left out, and two calls of macros that the includer defines.
    ///
    /// `stubs!` gets `index name;` of every function. `signatures!` gets
    /// `class [stream] index name(parameter: type, …);` of those whose parameters are listed. In
    /// brackets is where a launch has its stream: `handle`, a default stream and a parameter;
    /// `config`, the same, for a field behind the parameter; `none` and a default stream, for that
    /// itself; or `elsewhere`. A default stream is `legacy` or `per_thread`. For a call that waits
    /// it says `always`, or `may` for one that may have to, if gates are to be open meanwhile.
    ///
    /// Types beyond Rust's are `Handle` for handles and pointers, and the structures `Location`,
    /// `Dim3`, `Bytes64`, `Words3`, `Words4` and `Words8`.
    #[must_use]
    pub fn rust(&self) -> String {
        let count = self.functions.len();
        let names: String =
            self.functions.iter().map(|known| format!("    c\"{}\",\n", known.name)).collect();
        let class = |known: &Function| format!("    Class::{:?},\n", known.class);
        let classes: String = self.functions.iter().map(class).collect();
        let group = |known: &Function| self.groups.get(known.group);
        let tells = |known: &Function| match group(known) {
            Some(of) if known.class == Class::Launch && of.waits => "ByReturning",
            Some(of) if known.class == Class::Launch && of.calls => "ByCalling",
            _ => "Nothing",
        };
        let told = |known: &Function| format!("    Tells::{},\n", tells(known));
        let told: String = self.functions.iter().map(told).collect();
        let numbered = || self.functions.iter().enumerate();
        let stubs: String =
            numbered().map(|(index, known)| format!("    {index} {};\n", known.name)).collect();
        let signatures: String =
            numbered().filter_map(|(index, known)| self.signature(index, known)).collect();
        format!(
            "/// How many functions the list has.\n\
             pub(crate) const COUNT: usize = {count};\n\
             /// Their names, sorted.\n\
             pub(crate) static NAMES: [&CStr; COUNT] = [\n{names}];\n\
             /// Their classes.\n\
             pub(crate) static CLASSES: [Class; COUNT] = [\n{classes}];\n\
             /// How those that launch tell the program that something has run.\n\
             pub(crate) static TELLS: [Tells; COUNT] = [\n{told}];\n\
             /// What begins the names that are left out.\n\
             pub(crate) static LEFT_OUT: &[&str] = &{:?};\n\
             stubs! {{\n{stubs}}}\n\
             signatures! {{\n{signatures}}}\n",
            self.left_out.prefixes
        )
    }

    fn signature(&self, index: usize, function: &Function) -> Option<String> {
        let parameters = function.parameters.as_ref()?;
        let written = parameters.iter().map(|each| format!("{}: {}", each.name, each.rust));
        let (class, name) = (function.class.name(), &function.name);
        // Nothing but the classes that hooks are for.
        let hooked = function.class != Class::Forwarded;
        let list = written.collect::<Vec<_>>().join(", ");
        let group = self.groups.get(function.group);
        let stream = match group {
            Some(group) if function.class == Class::Waits && !group.keeps_gates => {
                if group.waits { "always" } else { "may" }.to_owned()
            }
            _ => self.stream(function, parameters),
        };
        hooked.then(|| format!("    {class} [{stream}] {index} {name}({list});\n"))
    }

    /// Where a launch has its stream.
    fn stream(&self, function: &Function, parameters: &[Parameter]) -> String {
        if function.class != Class::Launch {
            return String::new();
        }
        let default = match function.default_stream() {
            DefaultStream::Legacy => "legacy",
            DefaultStream::PerThread => "per_thread",
        };
        let named = |kind: &str| parameters.iter().find(|parameter| parameter.kind == kind);
        let place = self.groups.get(function.group).and_then(|group| group.stream.as_deref());
        match (named("stream"), named("*launch_config"), place) {
            (Some(stream), ..) => format!("handle {default} {}", stream.name),
            (None, Some(config), Some(_)) => format!("config {default} {}", config.name),
            (None, None, Some("default")) => format!("none {default}"),
            _ => "elsewhere".to_owned(),
        }
    }
}
