//! The public interface of the library as a text, so that a change of it shows in the diff of `docs/api.txt`.
//!
//! It is read from the formatted source, not from the compiler: items with `pub`, variants of public enums and items of
//! public traits, by file. An item of a private module may be listed although nothing re-exports it.

use std::fmt::Write as _;
use std::path::Path;

use crate::{Result, tidy};

/// The file with the listing.
const FILE: &str = "docs/api.txt";
/// The crates that a program which embeds Waypost names.
const CRATES: [&str; 2] = ["waypost", "waypost-core"];
const HEAD: &str = "\
The public interface of the crates waypost and waypost-core, made from the source by `cargo xtask docs`.
A line that changes or disappears breaks programs that use it: that needs a new major version, or a minor one before 1.0.
";

/// Writes the listing.
pub(crate) fn write(root: &Path) -> Result {
    crate::dist::write(&root.join(FILE), listing(root)?.as_bytes())
}

/// Returns an error if the listing is not up to date.
pub(crate) fn check(root: &Path) -> Result {
    let written = std::fs::read_to_string(root.join(FILE)).unwrap_or_default();
    let actual = listing(root)?;
    match actual.lines().zip(written.lines().chain(std::iter::repeat(""))).find(|(now, before)| now != before) {
        None if actual == written => Ok(()),
        Some((now, before)) => Err(format!(
            "the public interface changed: {FILE} has {before:?}, and the source {now:?}; cargo xtask docs writes it"
        )),
        None => Err(format!("the public interface lost items that {FILE} has; cargo xtask docs writes it")),
    }
}

fn listing(root: &Path) -> Result<String> {
    let mut text = HEAD.to_owned();
    for name in CRATES {
        let source = root.join("crates").join(name).join("src");
        let mut files = Vec::new();
        tidy::find_files(&source, "rs", &mut files)?;
        files.sort();
        for file in files {
            let content = std::fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
            let items = items(&content);
            if !items.is_empty() {
                let path = file.strip_prefix(root).unwrap_or(&file);
                let _ = write!(text, "\n{}\n", path.display());
                for item in items {
                    let _ = writeln!(text, "    {item}");
                }
            }
        }
    }
    Ok(text)
}

/// The block whose items are read.
struct Block {
    indent: usize,
    /// Whether its items are public without `pub`: those of a public enum or trait.
    is_public: bool,
    /// The line of an `impl`, until an item of it is listed.
    head: Option<String>,
}

/// Returns the public items of a source file. It is formatted by rustfmt, so indentation shows where a block ends.
fn items(content: &str) -> Vec<String> {
    let mut items = Vec::new();
    let mut blocks: Vec<Block> = Vec::new();
    let mut lines = content.lines().take_while(|line| *line != "#[cfg(test)]");
    while let Some(line) = lines.next() {
        let item = line.trim_start();
        let indent = line.len() - item.len();
        if item.is_empty() || item.starts_with("//") || item.starts_with('#') {
            continue;
        }
        blocks.retain(|block| block.indent < indent);
        let is_inner = blocks.last().is_some_and(|block| block.indent + 4 == indent);
        let in_public = is_inner && blocks.last().is_some_and(|block| block.is_public);
        if item.starts_with("impl") {
            let head = signature(item, &mut lines);
            // The items of a trait are public where the trait is.
            blocks.push(Block { indent, is_public: false, head: Some(head) });
            continue;
        }
        let is_item = |char: char| char.is_ascii_uppercase();
        let listed = in_public
            && (item.starts_with(is_item) || ["fn ", "type ", "const "].iter().any(|word| item.starts_with(word)));
        if !(item.starts_with("pub ") || listed) || !(indent == 0 || is_inner) {
            continue;
        }
        let signature = signature(item, &mut lines);
        let depth = "    ".repeat(blocks.len());
        if let Some(head) = blocks.last_mut().and_then(|block| block.head.take()) {
            items.push(head);
        }
        let opens = ["pub struct ", "pub enum ", "pub trait ", "pub mod "].iter().any(|word| item.starts_with(word));
        if opens && !item.ends_with(';') {
            let opens_items = item.starts_with("pub enum ") || item.starts_with("pub trait ");
            blocks.push(Block { indent, is_public: opens_items, head: None });
        }
        items.push(format!("{depth}{signature}"));
    }
    items
}

/// Returns an item in one line, up to its body.
fn signature<'a>(first: &str, rest: &mut impl Iterator<Item = &'a str>) -> String {
    let mut text = first.to_owned();
    let is_whole = |text: &str| {
        let open = text.matches(['(', '[']).count();
        let close = text.matches([')', ']']).count();
        open <= close && (text.contains('{') || text.ends_with([';', ',', '}', ')']) || text.contains(" = "))
    };
    while !is_whole(&text) {
        let Some(line) = rest.next() else { break };
        let line = line.trim();
        let glue = if text.ends_with(['(', '[']) || line.starts_with([')', ']']) { "" } else { " " };
        text = format!("{}{glue}{line}", if glue.is_empty() { text.trim_end_matches(',') } else { &text });
    }
    let is_use = text.starts_with("pub use");
    let end = if is_use { text.len() } else { text.find('{').or_else(|| text.find(" = ")).unwrap_or(text.len()) };
    text[..end].trim().trim_end_matches([',', ';']).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_listing_of_the_public_interface_is_up_to_date() {
        check(&crate::root()).unwrap();
    }

    #[test]
    fn public_items_are_listed_and_others_are_not() {
        let source = "pub struct A {\n    /// x\n    pub x: u8,\n    y: u8,\n}\n\nimpl A {\n    /// Does it.\n    pub fn \
                      long(\n        &self,\n        name: &str,\n    ) -> Result<()> {\n        let Some(B) = x;\n    }\n\n    fn \
                      hidden(&self) {}\n}\n\npub enum E {\n    /// One.\n    One,\n    Two(u8),\n    Three {\n        z: u8,\n    \
                      },\n}\n\npub trait T: Send {\n    fn f(&self);\n}\n\npub use x::{A, B};\npub(crate) fn no() {}\nfn no() {\n    \
                      pub fn inner() {}\n}\n\n#[cfg(test)]\nmod tests {\n    pub fn no() {}\n}\n";
        assert_eq!(
            items(source),
            [
                "pub struct A",
                "    pub x: u8",
                "impl A",
                "    pub fn long(&self, name: &str) -> Result<()>",
                "pub enum E",
                "    One",
                "    Two(u8)",
                "    Three",
                "pub trait T: Send",
                "    fn f(&self)",
                "pub use x::{A, B}",
            ]
        );
    }
}
