//! How long the commands of a stand-in are: about a quarter of the model's device time on an H200,
//! in fewer commands, since taking turns costs a processor more than it costs a GPU.

use super::super::protocol::RoleSpec;

/// Commands of a request, and the length of each in µs.
const WORKS: [(&str, u64, u64); 13] = [
    ("bert-base", 12, 100),
    ("bert-large", 16, 60),
    ("black-scholes", 4, 250),
    ("cfd", 10, 200),
    ("deeplabv3", 10, 120),
    ("llm", 2, 200),
    ("resnet50", 8, 60),
    ("resnet50-train", 8, 100),
    ("resnet152", 20, 80),
    ("whisper", 100, 200),
    ("gemm-8192", 1, 500),
    ("bert-large-train", 10, 150),
    ("operators", 40, 20),
];
/// Tokens of a language model's request that says no number.
const TOKENS: u64 = 16;
/// The work whose requests are tokens one after the other.
const LANGUAGE_MODEL: &str = "llm";

/// The lengths of the commands of a request, in ns; `None` for a work that has no stand-in. A graph
/// is one command.
pub(super) fn kernels_ns(role: &RoleSpec) -> Option<Vec<u64>> {
    let (_, count, us) = WORKS.iter().find(|(name, ..)| *name == role.work)?;
    // A batch makes kernels longer, but not by all of it.
    let ns = us * 1_000 * u64::from(role.batch.max(1).ilog2() + 1);
    Some(if role.graph { vec![count * ns] } else { vec![ns; usize::try_from(*count).ok()?] })
}

/// Tokens of a request, where it has any.
pub(super) fn tokens(role: &RoleSpec) -> Option<u64> {
    let wanted = role.options.get("new_tokens").and_then(serde_json::Value::as_u64);
    (role.work == LANGUAGE_MODEL).then(|| wanted.unwrap_or(TOKENS).clamp(2, TOKENS))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn role(work: &str, graph: bool, batch: u32) -> RoleSpec {
        RoleSpec { work: work.to_owned(), graph, batch, ..RoleSpec::default() }
    }

    #[test]
    fn a_graph_is_one_command_of_the_same_length() {
        let kernels = kernels_ns(&role("bert-base", false, 1)).unwrap();
        assert_eq!(kernels.len(), 12);
        let graph = kernels_ns(&role("bert-base", true, 1)).unwrap();
        assert_eq!(graph, [kernels.iter().sum::<u64>()]);
        assert!(kernels_ns(&role("bert-base", true, 8)).unwrap() > graph);
        assert_eq!(kernels_ns(&role("none", false, 1)), None);
    }

    #[test]
    fn only_language_models_have_tokens() {
        assert_eq!(tokens(&role("llm", false, 1)), Some(TOKENS));
        assert_eq!(tokens(&role("bert-base", false, 1)), None);
    }
}
