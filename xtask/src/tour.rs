//! `cargo xtask tour`: the commands of the book's tour of the daemon, as a reader types them.

use std::fs;
use std::io::Read;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::command::run as run_command;
use crate::test::rest;
use crate::{root, target_dir};

const PAGE: &str = "docs/src/start/tour.md";
/// Pause between two blocks, as a reader makes one: programs of the block before have started.
const PAUSE_S: u32 = 3;
/// A tour takes less than a minute.
const LIMIT_S: u32 = 300;
/// Stands alone in a line of the output behind what a block printed.
const END_OF_BLOCK: &str = "=== end of block";

/// States of a process that change all the time.
const STATES: [&str; 2] = ["held", "running"];

/// Commands of the page, and what they print among other things.
#[derive(Debug, Default, PartialEq, Eq)]
struct Block {
    commands: String,
    shows: Vec<String>,
}

/// Runs the tour with what the tests have built.
///
/// # Errors
/// If a command fails, or does not print what the page shows.
pub fn run() -> Result<()> {
    run_command(rest("test").arg("--no-run"))?;
    let page = fs::read_to_string(root().join(PAGE)).with_context(|| format!("no {PAGE}"))?;
    let blocks = blocks(&page);
    let folder = target_dir().join("tour");
    // What is left of a run that was ended.
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder)?;
    let file = folder.join("tour.sh");
    fs::write(&file, script(&blocks))?;
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let paths = [target_dir().join("debug")].into_iter().chain(std::env::split_paths(&paths));
    let mut tour = Command::new("timeout");
    tour.args([&LIMIT_S.to_string(), "bash"]).arg(&file).current_dir(&folder);
    tour.env("PATH", std::env::join_paths(paths)?).env("XDG_RUNTIME_DIR", &folder);
    for name in ["LD_PRELOAD", "XSCHED_SCHEDULER", "XSCHED_POLICY", "XSCHED_SOCKET"] {
        tour.env_remove(name);
    }
    let mut child = tour.stdout(Stdio::piped()).spawn().context("cannot start bash")?;
    let mut output = String::new();
    child.stdout.take().context("no output")?.read_to_string(&mut output)?;
    let status = child.wait()?;
    print!("{output}");
    ensure!(status.success(), "the tour of {PAGE} ended with {status}");
    for (number, (block, printed)) in (1..).zip(blocks.iter().zip(output.split(END_OF_BLOCK))) {
        let missing = missing(block, printed);
        ensure!(missing.is_empty(), "block {number} of {PAGE} does not print: {missing:#?}");
    }
    println!("tour: {} blocks of commands", blocks.len());
    Ok(())
}

/// All blocks in order as one script, which ends with the first command that fails.
fn script(blocks: &[Block]) -> String {
    let mut script =
        "set -eu\nexec 2>&1\ntrap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n".to_owned();
    for block in blocks {
        script += &format!("{}\necho '{END_OF_BLOCK}'\nsleep {PAUSE_S}\n", block.commands);
    }
    script
}

/// Blocks of commands, each with the text that follows it. What builds XSched is left out: it is
/// built.
fn blocks(page: &str) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        let mut inside = || lines.by_ref().take_while(|line| *line != "```").collect::<Vec<&str>>();
        match (line, blocks.last_mut()) {
            ("```sh", _) => {
                blocks.push(Block { commands: inside().join("\n"), shows: Vec::new() });
            }
            ("```text", Some(block)) => {
                block.shows = inside().into_iter().map(str::to_owned).collect();
            }
            _ => {}
        }
    }
    blocks.retain(|block| !block.commands.contains("cargo build"));
    blocks
}

/// Lines of a block's text that it did not print. A word with a digit and a process's state may be
/// others.
fn missing<'a>(block: &'a Block, printed: &str) -> Vec<&'a str> {
    let varies = |word: &&str| STATES.contains(word) || word.contains(|c: char| c.is_ascii_digit());
    let is_printed = |shown: &&String| {
        printed.lines().any(|line| {
            let mut words = line.split_whitespace();
            let mut wanted = shown.split_whitespace().filter(|word| !varies(word));
            wanted.all(|wanted| words.any(|word| word == wanted))
        })
    };
    let shown = block.shows.iter().filter(|shown| !shown.trim().is_empty());
    shown.filter(|shown| !is_printed(shown)).map(String::as_str).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_of_commands_have_the_text_behind_them() {
        let page = "a\n```sh\ncargo build\n```\n```sh\none &\ntwo\n```\nwords\n```text\nx 1\n\ny\n```\n\
                    ```toml\n[a]\n```\n```sh\nthree\n```\n";
        let block = |commands: &str, shows: &[&str]| Block {
            commands: commands.to_owned(),
            shows: shows.iter().map(|line| (*line).to_owned()).collect(),
        };
        assert_eq!(blocks(page), [block("one &\ntwo", &["x 1", "", "y"]), block("three", &[])]);
    }

    #[test]
    fn words_without_digits_have_to_be_printed_in_a_line() {
        let shows =
            ["pid  program state", "  7  demo    alone by held", ""].map(str::to_owned).to_vec();
        let block = Block { commands: String::new(), shows };
        assert_eq!(missing(&block, "pid uid program state\n12 0 demo alone by running\n"), [""; 0]);
        assert_eq!(
            missing(&block, "pid program\nstate\n12 0 demo alone held\n"),
            &block.shows[..2]
        );
    }

    #[test]
    fn a_command_that_fails_ends_the_script() {
        let block = |commands: &str| Block { commands: commands.to_owned(), shows: Vec::new() };
        let run = |first: &str| {
            // Without the pauses.
            let script = script(&[block(first), block("echo second")]);
            let script = script.replace(&format!("sleep {PAUSE_S}"), ":");
            let output = Command::new("bash").args(["-c", &script]).output().expect("bash");
            (output.status.success(), String::from_utf8(output.stdout).expect("text"))
        };
        let (is_fine, printed) = run("sleep 60 &\necho first");
        assert!(is_fine, "{printed}");
        assert_eq!(printed.split(END_OF_BLOCK).count(), 3, "{printed}");
        assert_eq!(run("false"), (false, String::new()));
    }

    #[test]
    fn the_page_has_blocks_and_shows_what_they_print() {
        let page = fs::read_to_string(root().join(PAGE)).expect("the page");
        let blocks = blocks(&page);
        for command in ["run", "ps", "top", "ctl", "record", "replay", "doctor"] {
            let word = format!("xsched {command}");
            assert!(blocks.iter().any(|block| block.commands.contains(&word)), "no {word}");
        }
        assert!(blocks.iter().filter(|block| !block.shows.is_empty()).count() >= 4);
    }
}
