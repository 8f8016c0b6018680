//! All output. Answers go to stdout, everything else to stderr; nothing else prints.

use std::fmt::Display;
use std::io::{self, IsTerminal, Write};

use anstyle::AnsiColor;
pub(crate) use anstyle::Style;
use serde::Serialize;
use serde_json::{Value, json};
use unicode_width::UnicodeWidthStr;
use waypost_core::{Error, Result};

use super::escape::escape;
use crate::environment::Variables;

const SCHEMA: &str = "waypost/1";

pub(crate) const BOLD: Style = Style::new().bold();
pub(crate) const DIM: Style = Style::new().dimmed();
pub(crate) const GOOD: Style = AnsiColor::Green.on_default();
pub(crate) const WARN: Style = AnsiColor::Yellow.on_default();
pub(crate) const BAD: Style = AnsiColor::Red.on_default();
pub(crate) const PLAIN: Style = Style::new();

/// When to use colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Color {
    /// On a terminal, unless NO_COLOR is set
    #[default]
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

/// Where output goes, and in which form.
pub(crate) struct Ui {
    pub(crate) json: bool,
    quiet: bool,
    color: Color,
    terminals_have_color: bool,
    /// What was warned about so far: said once, and part of a JSON answer.
    warnings: Vec<String>,
}

impl Ui {
    pub(crate) fn new(json: bool, quiet: bool, color: Color, variables: &Variables) -> Self {
        Ui { json, quiet, color, terminals_have_color: variables.allow_color(), warnings: Vec::new() }
    }

    /// Gives the command's answer: `data` for programs, what `text` writes for people.
    pub(crate) fn answer(&self, data: &impl Serialize, text: impl FnOnce(&mut Text)) -> Result<()> {
        let output = if self.json {
            // Written directly: numbers of other tools would not survive a detour over values.
            let answer = Answer { schema: SCHEMA, data, warnings: &self.warnings };
            let answer = serde_json::to_string(&answer)
                .map_err(|error| Error::internal("the answer cannot be written as JSON").because(error))?;
            format!("{answer}\n")
        } else {
            let mut page = Text { out: String::new(), color: self.colors(&io::stdout()) };
            text(&mut page);
            page.out
        };
        print(&output)
    }

    /// Prints one line of a long answer at once, for people only.
    pub(crate) fn progress(&self, line: &str) -> Result<()> {
        if self.json || self.quiet { Ok(()) } else { print(&format!("{line}\n")) }
    }

    /// Says something that is odd but not wrong: on stderr, or with the answer as JSON.
    pub(crate) fn warn(&mut self, warning: &str) {
        if self.warnings.iter().any(|said| said == warning) {
            return;
        }
        self.warnings.push(warning.to_owned());
        if !self.json {
            self.complain(WARN, "warning", warning);
        }
    }

    /// Asks something of whoever sits at the terminal, and returns the answer.
    #[expect(clippy::unused_self, reason = "nothing else talks to people")]
    pub(crate) fn ask(&self, question: &str) -> Result<String> {
        let cannot = |error| Error::unavailable("cannot ask").because(error);
        write!(io::stderr(), "{}", escape(question)).and_then(|()| io::stderr().flush()).map_err(cannot)?;
        let mut answer = String::new();
        io::stdin().read_line(&mut answer).map_err(cannot)?;
        Ok(answer.trim().to_owned())
    }

    /// Says something helpful that nobody asked for.
    pub(crate) fn note(&self, note: &str) {
        if !self.json && !self.quiet {
            self.complain(DIM, "note", note);
        }
    }

    /// Says what went wrong, on stderr.
    pub(crate) fn error(&self, error: &Error, store: Option<(&str, &str)>) {
        if self.json {
            let mut body = json!({
                "code": error.kind().code(),
                "message": error.full_message(),
                "hints": error.hints(),
            });
            if let (Some((path, because)), Value::Object(body)) = (store, &mut body) {
                body.insert("store".to_owned(), json!({ "path": path, "because": because }));
            }
            let _ = writeln!(io::stderr(), "{}", json!({ "schema": SCHEMA, "error": body }));
            return;
        }
        self.complain(BAD, "error", &error.full_message());
        for hint in error.hints() {
            self.complain(GOOD, "hint", hint);
        }
        if let Some((path, because)) = store {
            self.complain(DIM, "store", &format!("{path} ({because})"));
        }
    }

    fn complain(&self, style: Style, label: &str, message: &str) {
        let label = painted(style, label, self.colors(&io::stderr()));
        // TOML errors come with a picture of several lines. Indented, none of them can pass for a line of ours.
        let message: Vec<_> = message.lines().map(escape).collect();
        // Nowhere is left to say that stderr is closed.
        let _ = writeln!(io::stderr(), "{label}: {}", message.join("\n    "));
    }

    fn colors(&self, stream: &impl IsTerminal) -> bool {
        match self.color {
            Color::Always => true,
            Color::Never => false,
            Color::Auto => self.terminals_have_color && stream.is_terminal(),
        }
    }
}

/// Prints to stdout as it is.
pub(crate) fn print(output: &str) -> Result<()> {
    print_bytes(output.as_bytes())
}

/// Prints a document as it is. A terminal is not made to obey what stands in it.
pub(crate) fn print_document(content: &[u8]) -> Result<()> {
    if !io::stdout().is_terminal() {
        return print_bytes(content);
    }
    let text = String::from_utf8_lossy(content);
    print(&text.lines().map(|line| escape(line).into_owned() + "\n").collect::<String>())
}

fn print_bytes(output: &[u8]) -> Result<()> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(output).and_then(|()| stdout.flush()) {
        // Whoever reads has seen enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        Err(error) => Err(Error::unavailable("cannot write to standard output").because(error)),
        Ok(()) => Ok(()),
    }
}

/// What programs get on stdout.
#[derive(Serialize)]
struct Answer<'a, T: Serialize> {
    schema: &'static str,
    data: &'a T,
    warnings: &'a [String],
}

/// A page of text for people.
pub(crate) struct Text {
    out: String,
    color: bool,
}

impl Text {
    /// Writes a line.
    pub(crate) fn line(&mut self, text: impl Display) {
        self.out.push_str(&escape(&text.to_string()));
        self.out.push('\n');
    }

    /// Writes a line in bold.
    pub(crate) fn heading(&mut self, text: &str) {
        self.out.push_str(&painted(BOLD, text, self.color));
        self.out.push('\n');
    }

    /// Writes an empty line.
    pub(crate) fn gap(&mut self) {
        self.out.push('\n');
    }

    /// Writes rows in aligned columns, two spaces apart.
    pub(crate) fn table(&mut self, rows: &[Vec<Cell>]) {
        let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
        let widths: Vec<usize> = (0..columns)
            .map(|column| rows.iter().filter_map(|row| row.get(column)).map(Cell::width).max().unwrap_or(0))
            .collect();
        for row in rows {
            let mut line = String::new();
            let mut owed = 0;
            for (cell, width) in row.iter().zip(&widths) {
                if cell.width() > 0 {
                    line.push_str(&" ".repeat(owed));
                    line.push_str(&painted(cell.style, &cell.text, self.color));
                    owed = 0;
                }
                // Spaces are written only before something, so that no line ends in them.
                owed += width - cell.width() + 2;
            }
            self.out.push_str(&line);
            self.out.push('\n');
        }
    }
}

/// A cell of a table, safe to print.
pub(crate) struct Cell {
    text: String,
    style: Style,
}

impl Cell {
    fn width(&self) -> usize {
        self.text.width()
    }
}

/// Makes a cell.
pub(crate) fn cell(text: impl Display) -> Cell {
    styled(PLAIN, text)
}

/// Makes a cell with a style.
pub(crate) fn styled(style: Style, text: impl Display) -> Cell {
    Cell { text: escape(&text.to_string()).into_owned(), style }
}

fn painted(style: Style, text: &str, color: bool) -> String {
    if color && style != PLAIN { format!("{style}{text}{style:#}") } else { text.to_owned() }
}
