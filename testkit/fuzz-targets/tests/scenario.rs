//! Scenario files that are cut, mutated or malformed.

use std::path::Path;

use xsched_fuzz_targets::{corpus, fuzz_scenario};

/// The first `toml` block of the documentation.
fn documented_example() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/src/reference/scenarios.md");
    let page = std::fs::read_to_string(&path).expect("docs/src/reference/scenarios.md");
    let (_, rest) = page.split_once("```toml\n").expect("a toml block");
    let (example, _) = rest.split_once("```").expect("the end of the toml block");
    example.to_owned()
}

/// A small generator of numbers that are always the same (xorshift64).
struct Generator(u64);

impl Generator {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound as u64) as usize
    }
}

/// Texts that the mutations start from: the documented example and all malformed scenarios.
fn starting_points() -> Vec<Vec<u8>> {
    let mut texts = vec![documented_example().into_bytes()];
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../sim/tests/malformed");
    let entries = std::fs::read_dir(folder).expect("the folder of malformed scenarios");
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "toml"));
    paths.sort();
    texts.extend(paths.iter().map(|path| std::fs::read(path).expect("a scenario")));
    texts
}

#[test]
fn the_corpus_is_accepted_or_refused() {
    for (_, bytes) in corpus("scenario") {
        fuzz_scenario(&bytes);
    }
}

#[test]
fn malformed_and_truncated_scenarios_are_refused_in_one_line() {
    let starting_points = starting_points();
    for data in &starting_points {
        fuzz_scenario(data);
    }
    let example = &starting_points[0];
    for end in 0..=example.len() {
        fuzz_scenario(&example[..end]);
    }
}

#[test]
fn mutated_scenarios_are_accepted_or_refused() {
    let starting_points = starting_points();
    let mut generator = Generator(0x9e37_79b9_7f4a_7c15);
    for round in 0..4_000 {
        // Every second case mutates the example, which gets through to the last checks.
        let pick = if round % 2 == 0 { 0 } else { generator.below(starting_points.len()) };
        let mut data = starting_points[pick].clone();
        for _ in 0..=generator.below(3) {
            let at = generator.below(data.len());
            match generator.below(4) {
                0 => data[at] ^= 1 << generator.below(8),
                1 => data[at] = b"0123456789-.\"[]{}=\n,_e"[generator.below(22)],
                2 => drop(data.remove(at)),
                _ => {
                    let end = (at + generator.below(40)).min(data.len());
                    let piece = data[at..end].to_vec();
                    let to = generator.below(data.len());
                    data.splice(to..to, piece);
                }
            }
        }
        fuzz_scenario(&data);
    }
}
