//! The book: its generated parts, its pages, its links.
//!
//! mdBook is built once from its sources into `target/tools`, without its server: 128 packages,
//! 72 s of processor time unoptimised. As a dependency of the workspace it takes 163 s, and every
//! check of the workspace would build it again.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use walkdir::WalkDir;

use crate::command::{cargo, run as run_command, tool};
use crate::{root, target_dir};

/// The version of mdBook that builds the book.
const MDBOOK: &str = "0.5.4";

/// How the book is made.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Write nothing into the sources, and fail if a generated part is stale.
    #[arg(long)]
    pub check: bool,
}

/// Writes or checks the generated parts, builds the book into `target/book`, checks its links.
///
/// # Errors
/// If a part is stale, the book cannot be built, or a link is dead.
pub fn run(options: &Options) -> Result<()> {
    let mut generate = cargo("run --quiet --package xsched-book --");
    run_command(generate.args(options.check.then_some("--check")))?;
    let book = target_dir().join("book");
    let mut build = std::process::Command::new(mdbook()?);
    run_command(build.arg("build").arg(root().join("docs")).arg("--dest-dir").arg(&book))?;
    let mut dead = Pages::read(&book)?.check()?;
    dead.extend(missing_pages(&book)?);
    for line in &dead {
        eprintln!("{line}");
    }
    if !dead.is_empty() {
        bail!("the book has {} dead links", dead.len());
    }
    println!("the book is in {}", book.join("index.html").display());
    Ok(())
}

/// The program `mdbook`, built if it is not there.
pub(crate) fn mdbook() -> Result<PathBuf> {
    tool("mdbook", MDBOOK, &["--debug", "--no-default-features", "--features", "search"])
}

/// Pages of `docs/src` that the summary leaves out, so that they are not in the book.
fn missing_pages(book: &Path) -> Result<Vec<String>> {
    let source = root().join("docs/src");
    let mut missing = Vec::new();
    for entry in WalkDir::new(&source).sort_by_file_name() {
        let entry = entry.context("cannot list docs/src")?;
        let path = entry.path().strip_prefix(&source)?;
        let is_page = path.extension().is_some_and(|end| end == "md");
        if !is_page || path.ends_with("SUMMARY.md") {
            continue;
        }
        let html = path.with_extension("html").to_string_lossy().replace("README", "index");
        if !book.join(html).exists() {
            missing.push(format!("{}: not in the summary", path.display()));
        }
    }
    Ok(missing)
}

/// The built pages by their path in the book, and the book's folder.
struct Pages {
    folder: PathBuf,
    pages: BTreeMap<String, String>,
}

impl Pages {
    fn read(folder: &Path) -> Result<Self> {
        let mut pages = BTreeMap::new();
        for entry in WalkDir::new(folder) {
            let entry = entry.with_context(|| format!("cannot list {}", folder.display()))?;
            let path = entry.path();
            if path.extension().is_some_and(|end| end == "html") {
                let name = path.strip_prefix(folder)?.to_string_lossy().into_owned();
                let text = fs::read_to_string(path);
                pages.insert(name, text.with_context(|| format!("{}", path.display()))?);
            }
        }
        Ok(Self { folder: folder.into(), pages })
    }

    /// The dead links of all pages. A link to a document outside of the book, which mdBook gives
    /// the ending of a page, gets its own ending back.
    fn check(&self) -> Result<Vec<String>> {
        let mut dead = Vec::new();
        let special = ["print.html", "404.html", "toc.html"];
        for (page, text) in &self.pages {
            if special.contains(&page.as_str()) {
                continue;
            }
            let mut mended = text.clone();
            for link in links(text) {
                match self.target(page, &link) {
                    Target::Lives => {}
                    Target::Document(path) => {
                        let quoted = |link: &str| format!("\"{link}\"");
                        mended = mended.replace(&quoted(&link), &quoted(&path));
                    }
                    Target::Dead => dead.push(format!("{page}: `{link}` leads nowhere")),
                }
            }
            if mended != *text {
                let path = self.folder.join(page);
                fs::write(&path, mended).with_context(|| format!("{}", path.display()))?;
            }
        }
        Ok(dead)
    }

    /// Where a link of a page leads. Paths are resolved as those of the page's source.
    fn target(&self, page: &str, link: &str) -> Target {
        let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
        let resolved = if path.is_empty() {
            Some(format!("docs/src/{page}"))
        } else {
            resolve(&format!("docs/src/{page}"), path)
        };
        let Some(resolved) = resolved else { return Target::Dead };
        let Some(inside) = resolved.strip_prefix("docs/src/") else {
            let document = resolved.strip_suffix(".html").map(|stem| format!("{stem}.md"));
            return match document {
                Some(document) if root().join(&document).exists() => {
                    Target::Document(link.replacen(".html", ".md", 1))
                }
                _ if root().join(&resolved).exists() => Target::Lives,
                _ => Target::Dead,
            };
        };
        let lives = match self.pages.get(inside) {
            Some(text) => anchor.is_empty() || text.contains(&format!("id=\"{anchor}\"")),
            None => self.folder.join(inside).exists(),
        };
        if lives { Target::Lives } else { Target::Dead }
    }
}

/// Where a link leads.
#[derive(Debug, PartialEq, Eq)]
enum Target {
    Lives,
    /// To a document outside of the book, by this link.
    Document(String),
    Dead,
}

/// A path relative to the folder of `from`, from the root; `None` if it leaves the repository.
fn resolve(from: &str, path: &str) -> Option<String> {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

/// The targets of a page's links and pictures that are not on the network.
fn links(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for attribute in [" href=\"", " src=\""] {
        for rest in text.split(attribute).skip(1) {
            let link = rest.split('"').next().unwrap_or_default().replace("&amp;", "&");
            let elsewhere = link.contains(':') || link.is_empty();
            if !elsewhere && !found.contains(&link) {
                found.push(link);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pages() -> Pages {
        let pages = [
            ("guides/a.html", "<h2 id=\"here\">"),
            ("index.html", "<a href=\"guides/a.html#here\">"),
        ];
        let pages = pages.map(|(name, text)| (name.to_owned(), text.to_owned()));
        Pages { folder: PathBuf::from("/nowhere"), pages: pages.into() }
    }

    #[test]
    fn links_are_found_in_pages() {
        let text = "<a href=\"a.html\"> <img src=\"b.svg\"> <a href=\"https://x.org/\">";
        assert_eq!(links(text), ["a.html", "b.svg"]);
    }

    #[test]
    fn dead_links_are_told_from_live_ones() {
        let pages = pages();
        assert_eq!(pages.target("index.html", "guides/a.html#here"), Target::Lives);
        assert_eq!(pages.target("guides/a.html", "#here"), Target::Lives);
        assert_eq!(pages.target("guides/a.html", "../index.html"), Target::Lives);
        assert_eq!(pages.target("guides/a.html", "../../../core/Cargo.toml"), Target::Lives);
        assert_eq!(pages.target("index.html", "guides/a.html#gone"), Target::Dead);
        assert_eq!(pages.target("index.html", "gone.html"), Target::Dead);
        assert_eq!(pages.target("index.html", "../../gone.rs"), Target::Dead);
        assert_eq!(pages.target("index.html", "../../../outside"), Target::Dead);
    }

    #[test]
    fn links_to_documents_outside_keep_their_ending() {
        let found = pages().target("guides/a.html", "../../../README.html#two-commands");
        assert_eq!(found, Target::Document("../../../README.md#two-commands".into()));
    }
}
