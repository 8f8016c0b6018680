//! Manual pages, made from the same definition as the help.

use std::io;
use std::path::Path;

use clap::Command;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};
use waypost_core::{Error, Result};

use crate::help::TOPICS;

const SOURCE: &str = concat!("Waypost ", env!("CARGO_PKG_VERSION"));
const MANUAL: &str = "Waypost";

/// Writes a page for every command, and one for every topic. Returns the names of the files.
pub(crate) fn write_pages(dir: &Path) -> Result<Vec<String>> {
    let cannot = |error: io::Error| Error::unavailable(format!("cannot write to {}", dir.display())).because(error);
    std::fs::create_dir_all(dir).map_err(cannot)?;
    let mut way = crate::command();
    way.build();
    let mut pages = Vec::new();
    collect(&way, None, &mut pages).map_err(cannot)?;
    pages.extend(TOPICS.iter().map(|(topic, about, text)| topic_page(topic, about, text)));
    for (name, page) in &pages {
        // Otherwise readers see typographic signs where a shell needs these.
        let page = page.replace('~', "\\(ti").replace('^', "\\(ha").replace('`', "\\(ga");
        // The library leaves out an empty date, whose place the next argument would take, and puts breaks around a blank line.
        let page = page.replacen("  \"Waypost", " \"\" \"Waypost", 1).replace(".br\n\n.br\n", ".sp\n");
        waypost_fs::replace(&dir.join(name), page.as_bytes(), 0o644).map_err(cannot)?;
    }
    Ok(pages.into_iter().map(|(name, _)| name).collect())
}

fn collect(command: &Command, parent: Option<&Command>, pages: &mut Vec<(String, String)>) -> io::Result<()> {
    pages.push(command_page(command, parent)?);
    let mut visible = command.get_subcommands().filter(|command| !command.is_hide_set());
    visible.try_for_each(|inner| collect(inner, Some(command), pages))
}

fn command_page(command: &Command, parent: Option<&Command>) -> io::Result<(String, String)> {
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage:").trim().to_owned();
    let shown = command.clone().override_usage(usage).after_help(None).after_long_help(None);
    // The page of the program has the global options.
    let shown = shown.mut_args(|arg| {
        let is_hidden = arg.is_hide_set() || (parent.is_some() && arg.is_global_set());
        arg.hide(is_hidden)
    });
    let man = Man::new(shown).title(name(command).to_uppercase()).source(SOURCE).manual(MANUAL);
    let mut page = Vec::new();
    man.render(&mut page)?;
    let mut end = Roff::new();
    if let Some(examples) = command.get_after_long_help().or(command.get_after_help()) {
        end.control("SH", ["EXAMPLES"]);
        literal(&mut end, examples.to_string().trim_start_matches("Examples:\n"));
    }
    end.control("SH", ["EXIT STATUS"]);
    end.text([roman("0 on success; "), bold("way-exit-codes"), roman("(7) lists the others.")]);
    end.control("SH", ["SEE ALSO"]);
    let above = parent.filter(|parent| parent.get_name() != "way").map(|parent| (name(parent).to_owned(), "(1),"));
    let see: Vec<(String, &str)> = match parent {
        None => TOPICS.iter().map(|(topic, ..)| (format!("way-{topic}"), "(7)")).collect(),
        Some(_) => above.into_iter().chain([("way".to_owned(), "(1), which lists the global options")]).collect(),
    };
    for (name, rest) in see {
        end.text([bold(name), roman(rest)]);
    }
    end.to_writer(&mut page)?;
    Ok((man.get_filename(), String::from_utf8_lossy(&page).into_owned()))
}

fn topic_page(topic: &str, about: &str, text: &str) -> (String, String) {
    let name = format!("way-{topic}");
    let mut page = Roff::new();
    page.control("TH", [&*name.to_uppercase(), "7", "", SOURCE, MANUAL]);
    page.control("SH", ["NAME"]).text([roman(format!("{name} - {about}"))]);
    page.control("SH", ["DESCRIPTION"]);
    literal(&mut page, text);
    page.control("SH", ["SEE ALSO"]).text([bold("way"), roman("(1)")]);
    (format!("{name}.7"), page.render())
}

/// Adds text whose lines stay as they are.
fn literal(page: &mut Roff, text: &str) {
    page.control("nf", []);
    for line in text.trim_end().lines() {
        page.text([roman(line)]);
    }
    page.control("fi", []);
}

/// Returns the name of a command's page.
fn name(command: &Command) -> &str {
    command.get_display_name().unwrap_or(command.get_name())
}
