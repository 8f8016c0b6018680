//! All output of the program. Results go to stdout, everything else to stderr; no other module prints.

use std::fmt::Display;
use std::io::{self, BufRead as _, Write as _};

use anstyle::AnsiColor;
pub(crate) use anstyle::Style;
use clap::builder::StyledStr;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::Serialize;
use serde_json::{Value, json};
use waypost_core::{Error, Result};
use waypost_workspace::surroundings::{Stream, stderr, stdin, stdout};

use super::busy::{Busy, without_line};
use super::escape::escape;
use super::table::{self, paint};
pub(crate) use super::table::{Cell, DIM, PLAIN, cell, cell_keeping_end, header, number, prose, styled};
use waypost::app::session::Warnings;
use waypost::machine::Variables;

const SCHEMA: &str = "waypost/1";

pub(crate) const BOLD: Style = Style::new().bold();
pub(crate) const GOOD: Style = AnsiColor::Green.on_default();
pub(crate) const WARN: Style = AnsiColor::Yellow.on_default();
pub(crate) const BAD: Style = AnsiColor::Red.on_default();

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

/// The format of the output, and the warnings printed so far.
pub(crate) struct Ui {
    pub(crate) json: bool,
    quiet: bool,
    color: Color,
    terminals_have_color: bool,
    /// Each warning is printed once and is part of a JSON answer.
    warnings: Vec<String>,
    /// Warnings of operations, printed with the next answer.
    pub(crate) pending: Warnings,
}

impl Ui {
    pub(crate) fn new(json: bool, quiet: bool, color: Color, variables: &Variables) -> Self {
        Ui {
            json,
            quiet,
            color,
            terminals_have_color: variables.allow_color(),
            warnings: Vec::new(),
            pending: Warnings::default(),
        }
    }

    /// Prints the result of the command: `data` as JSON, or the text that `text` writes.
    pub(crate) fn answer(&self, data: &impl Serialize, text: impl FnOnce(&mut Text)) -> Result<()> {
        self.answer_with(data, None, text)
    }

    /// Prints one page of a long result; `next` is where the next page begins.
    pub(crate) fn answer_page(&self, data: &impl Serialize, next: u64, text: impl FnOnce(&mut Text)) -> Result<()> {
        self.answer_with(data, Some(next), text)
    }

    fn answer_with(&self, data: &impl Serialize, next: Option<u64>, text: impl FnOnce(&mut Text)) -> Result<()> {
        let output = if self.json {
            // Serialized directly: a `Value` would change the spelling of numbers that other tools wrote.
            let warnings: Vec<String> = self.warnings.iter().cloned().chain(self.pending.take()).collect();
            let answer = Answer { schema: SCHEMA, data, next, warnings: &warnings };
            let answer = serde_json::to_string(&answer)
                .map_err(|error| Error::internal("the answer cannot be written as JSON").because(error))?;
            format!("{answer}\n")
        } else {
            self.render(text)
        };
        print(&output)
    }

    /// Prints the warnings of operations that no answer included, unless the output is JSON.
    pub(crate) fn print_pending_warnings(&self) {
        if self.json {
            return;
        }
        for warning in self.pending.take() {
            self.print_labelled(WARN, "warning", &warning);
        }
    }

    /// Returns the text that `text` writes, for standard output.
    fn render(&self, text: impl FnOnce(&mut Text)) -> String {
        let mut page = Text { out: String::new(), color: self.colors(&stdout()), width: terminal_width() };
        text(&mut page);
        page.out
    }

    /// Prints one part of an endless result: a line of JSON, or the text that `text` writes.
    ///
    /// Returns false if the reader closed stdout.
    pub(crate) fn stream(&self, data: &impl Serialize, text: impl FnOnce(&mut Text)) -> Result<bool> {
        let output = if self.json {
            let line = serde_json::to_string(data)
                .map_err(|error| Error::internal("the answer cannot be written as JSON").because(error))?;
            format!("{line}\n")
        } else {
            self.render(text)
        };
        print_unless_closed(output.as_bytes())
    }

    /// Prints one line of progress immediately, unless the output is JSON or quiet.
    pub(crate) fn progress(&self, line: &str) -> Result<()> {
        if self.json || self.quiet { Ok(()) } else { print(&format!("{line}\n")) }
    }

    /// Tells on a terminal what the command does, if it takes longer than a second. Ends when the value is dropped.
    pub(crate) fn busy(&self, what: &str) -> Busy {
        let is_shown = !self.json && !self.quiet && stderr().is_terminal();
        if is_shown { Busy::show(what) } else { Busy::HIDDEN }
    }

    /// Adds a warning: printed to stderr, or part of the JSON answer.
    pub(crate) fn warn(&mut self, warning: &str) {
        if self.warnings.iter().any(|known| known == warning) {
            return;
        }
        self.warnings.push(warning.to_owned());
        if !self.json {
            self.print_labelled(WARN, "warning", warning);
        }
    }

    /// Asks the user a question on the terminal, and returns the answer.
    #[expect(clippy::unused_self, reason = "all output goes through Ui")]
    pub(crate) fn ask(&self, question: &str) -> Result<String> {
        let cannot = |error| Error::unavailable("cannot prompt on the terminal").because(error);
        write!(stderr(), "{}", escape(question)).map_err(cannot)?;
        let mut answer = String::new();
        io::BufReader::new(stdin()).read_line(&mut answer).map_err(cannot)?;
        Ok(answer.trim().to_owned())
    }

    /// Prints a note to stderr, unless the output is JSON or quiet.
    pub(crate) fn note(&self, note: &str) {
        if !self.json && !self.quiet {
            self.print_labelled(DIM, "note", note);
        }
    }

    /// Prints an error to stderr, with its hints and the store it concerns.
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
            print_error(&json!({ "schema": SCHEMA, "error": body }).to_string());
            return;
        }
        self.print_labelled(BAD, "error", &error.full_message());
        for hint in error.hints() {
            self.print_labelled(GOOD, "hint", hint);
        }
        if let Some((path, because)) = store {
            self.print_labelled(DIM, "store", &format!("{path} ({because})"));
        }
    }

    fn print_labelled(&self, style: Style, label: &str, message: &str) {
        let label = paint(style, label, self.colors(&stderr()));
        // TOML errors span several lines. Indentation keeps them from being mistaken for further messages.
        let message: Vec<_> = message.lines().map(escape).collect();
        without_line(|| print_error(&format!("{label}: {}", message.join("\n    "))));
    }

    /// Prints help, or an error about the arguments.
    pub(crate) fn print_usage(&self, text: &StyledStr, mut to: Stream) {
        let text = if self.colors(&to) { text.ansi().to_string() } else { text.to_string() };
        // There is nowhere to report that the stream is closed.
        let _ = to.write_all(text.as_bytes());
    }

    /// Returns whether standard output gets colours.
    pub(crate) fn has_color(&self) -> bool {
        self.colors(&stdout())
    }

    pub(crate) fn colors(&self, stream: &Stream) -> bool {
        match self.color {
            Color::Always => true,
            Color::Never => false,
            Color::Auto => self.terminals_have_color && stream.is_terminal(),
        }
    }
}

/// Prints one line to stderr.
pub(crate) fn print_error(line: &str) {
    // One write, so that lines of several threads do not mix. There is nowhere to report that stderr is closed.
    let _ = stderr().write_all(format!("{line}\n").as_bytes());
}

/// Prints a text to stdout unchanged.
pub(crate) fn print(output: &str) -> Result<()> {
    print_bytes(output.as_bytes())
}

/// Prints a document unchanged, or with control characters escaped on a terminal.
pub(crate) fn print_document(content: &[u8]) -> Result<()> {
    if !stdout().is_terminal() {
        return print_bytes(content);
    }
    let text = String::from_utf8_lossy(content);
    print(&text.lines().map(|line| escape(line).into_owned() + "\n").collect::<String>())
}

fn print_bytes(output: &[u8]) -> Result<()> {
    print_unless_closed(output).map(drop)
}

/// Prints to stdout. Returns false if the reader closed it.
fn print_unless_closed(output: &[u8]) -> Result<bool> {
    let mut stdout = stdout();
    match without_line(|| stdout.write_all(output)) {
        // The reader closed the pipe, as `head` does: not an error.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(Error::unavailable("cannot write to standard output").because(error)),
        Ok(()) => Ok(true),
    }
}

/// Returns whether the reader closed stdout.
pub(crate) fn is_closed() -> bool {
    let stdout = stdout();
    let mut fds = [PollFd::new(&stdout, PollFlags::empty())];
    let no_wait = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut fds, Some(&no_wait)).is_ok() && fds[0].revents().intersects(PollFlags::ERR | PollFlags::NVAL)
}

/// The JSON envelope on stdout.
#[derive(Serialize)]
struct Answer<'a, T: Serialize> {
    schema: &'static str,
    data: &'a T,
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<u64>,
    warnings: &'a [String],
}

/// A page of human-readable text.
pub(crate) struct Text {
    out: String,
    color: bool,
    /// Columns per line, on a terminal.
    width: Option<usize>,
}

/// Width of a terminal that does not tell its width.
const DEFAULT_WIDTH: usize = 80;

/// Returns the width of the terminal; `None` if stdout is not a terminal: nothing is shortened in a pipe or a file.
fn terminal_width() -> Option<usize> {
    if !stdout().is_terminal() {
        return None;
    }
    let columns = rustix::termios::tcgetwinsize(stdout()).map_or(0, |size| usize::from(size.ws_col));
    Some(if columns == 0 { DEFAULT_WIDTH } else { columns })
}

impl Text {
    /// Writes a line.
    pub(crate) fn line(&mut self, text: impl Display) {
        self.out.push_str(&escape(&text.to_string()));
        self.out.push('\n');
    }

    /// Writes a line in bold.
    pub(crate) fn heading(&mut self, text: &str) {
        self.out.push_str(&paint(BOLD, text, self.color));
        self.out.push('\n');
    }

    /// Writes an empty line.
    pub(crate) fn gap(&mut self) {
        self.out.push('\n');
    }

    /// Writes rows in aligned columns, and lets one column be shortened on a narrow terminal.
    pub(crate) fn fitted_table(&mut self, rows: Vec<Vec<Cell>>, column: usize) {
        let cuttable = |row: Vec<Cell>| {
            row.into_iter().enumerate().map(|(at, cell)| if at == column { cell.cuttable() } else { cell }).collect()
        };
        self.table(&rows.into_iter().map(cuttable).collect::<Vec<Vec<Cell>>>());
    }

    /// Writes rows in aligned columns, two spaces apart.
    pub(crate) fn table(&mut self, rows: &[Vec<Cell>]) {
        self.out.push_str(&table::lines(rows, self.width, self.color));
    }

    /// Writes a list: its header and its rows, or nothing if there are no rows.
    pub(crate) fn list(&mut self, header: Vec<Cell>, rows: impl IntoIterator<Item = Vec<Cell>>) {
        let mut all = vec![header];
        all.extend(rows);
        if all.len() > 1 {
            self.table(&all);
        }
    }
}
