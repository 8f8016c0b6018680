//! All output. Answers go to stdout, everything else to stderr; nothing else prints.

use std::fmt::Display;
use std::io::{self, IsTerminal, Write};

use anstyle::AnsiColor;
pub(crate) use anstyle::Style;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::Serialize;
use serde_json::{Value, json};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};
use waypost_core::{Error, Result};

use super::escape::escape;
use waypost::environment::Variables;

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
        self.answer_with(data, None, text)
    }

    /// Gives one page of a long answer, with where the next one begins.
    pub(crate) fn answer_page(&self, data: &impl Serialize, next: u64, text: impl FnOnce(&mut Text)) -> Result<()> {
        self.answer_with(data, Some(next), text)
    }

    fn answer_with(&self, data: &impl Serialize, next: Option<u64>, text: impl FnOnce(&mut Text)) -> Result<()> {
        let output = if self.json {
            // Written directly: numbers of other tools would not survive a detour over values.
            let answer = Answer { schema: SCHEMA, data, next, warnings: &self.warnings };
            let answer = serde_json::to_string(&answer)
                .map_err(|error| Error::internal("the answer cannot be written as JSON").because(error))?;
            format!("{answer}\n")
        } else {
            let mut page = Text { out: String::new(), color: self.colors(&io::stdout()), width: terminal_width() };
            text(&mut page);
            page.out
        };
        print(&output)
    }

    /// Prints one part of a long answer at once, for people.
    pub(crate) fn page(&self, text: impl FnOnce(&mut Text)) -> Result<()> {
        let mut page = Text { out: String::new(), color: self.colors(&io::stdout()), width: terminal_width() };
        text(&mut page);
        print(&page.out)
    }

    /// Gives one part of an answer that has no end: a line of JSON for programs, what `text` writes for people.
    ///
    /// Returns whether somebody still reads.
    pub(crate) fn stream(&self, data: &impl Serialize, text: impl FnOnce(&mut Text)) -> Result<bool> {
        let output = if self.json {
            let line = serde_json::to_string(data)
                .map_err(|error| Error::internal("the answer cannot be written as JSON").because(error))?;
            format!("{line}\n")
        } else {
            let mut page = Text { out: String::new(), color: self.colors(&io::stdout()), width: terminal_width() };
            text(&mut page);
            page.out
        };
        print_unless_closed(output.as_bytes())
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
            self.print_labelled(WARN, "warning", warning);
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
            self.print_labelled(DIM, "note", note);
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
        self.print_labelled(BAD, "error", &error.full_message());
        for hint in error.hints() {
            self.print_labelled(GOOD, "hint", hint);
        }
        if let Some((path, because)) = store {
            self.print_labelled(DIM, "store", &format!("{path} ({because})"));
        }
    }

    fn print_labelled(&self, style: Style, label: &str, message: &str) {
        let label = paint(style, label, self.colors(&io::stderr()));
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

/// Writes a line of a log: one object of JSON, on stderr.
pub(crate) fn log_line(line: &Value) {
    // In one piece: others write there, too. Nowhere is left to say that it is closed.
    let _ = io::stderr().write_all(format!("{line}\n").as_bytes());
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
    print_unless_closed(output).map(drop)
}

/// Prints to stdout, and returns whether somebody still reads.
fn print_unless_closed(output: &[u8]) -> Result<bool> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(output).and_then(|()| stdout.flush()) {
        // Whoever reads has seen enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(Error::unavailable("cannot write to standard output").because(error)),
        Ok(()) => Ok(true),
    }
}

/// Tells whether nobody can read any more what is printed.
pub(crate) fn is_closed() -> bool {
    let stdout = io::stdout();
    let mut fds = [PollFd::new(&stdout, PollFlags::empty())];
    let no_wait = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut fds, Some(&no_wait)).is_ok() && fds[0].revents().intersects(PollFlags::ERR | PollFlags::NVAL)
}

/// What programs get on stdout.
#[derive(Serialize)]
struct Answer<'a, T: Serialize> {
    schema: &'static str,
    data: &'a T,
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<u64>,
    warnings: &'a [String],
}

/// A page of text for people.
pub(crate) struct Text {
    out: String,
    color: bool,
    /// How many columns a line has.
    width: usize,
}

/// How wide a page is that nobody looks at on a terminal.
const DEFAULT_WIDTH: usize = 80;
/// A column that is cut keeps at least this much.
const MIN_COLUMN_WIDTH: usize = 12;

fn terminal_width() -> usize {
    let known = rustix::termios::tcgetwinsize(io::stdout()).map_or(0, |size| usize::from(size.ws_col));
    if known == 0 { DEFAULT_WIDTH } else { known }
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

    /// Writes rows in aligned columns; of one column only as much as there is room for on a line.
    pub(crate) fn fitted_table(&mut self, mut rows: Vec<Vec<Cell>>, column: usize) {
        let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
        let widths = (0..columns).filter(|other| *other != column);
        let others: usize = widths
            .map(|column| rows.iter().filter_map(|row| row.get(column)).map(Cell::width).max().unwrap_or(0) + 2)
            .sum();
        let room = self.width.saturating_sub(others).max(MIN_COLUMN_WIDTH);
        for cell in rows.iter_mut().filter_map(|row| row.get_mut(column)) {
            cell.truncate(room);
        }
        self.table(&rows);
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
                    line.push_str(&paint(cell.style, &cell.text, self.color));
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
    /// Which part of it is left out where there is no room.
    keeps_end: bool,
}

impl Cell {
    fn width(&self) -> usize {
        self.text.width()
    }

    /// Leaves out what goes beyond a width.
    fn truncate(&mut self, width: usize) {
        if self.width() <= width {
            return;
        }
        let mut left = width.saturating_sub(1);
        let mut fits = |char: &char| {
            let taken = char.width().unwrap_or(0);
            left.checked_sub(taken).inspect(|rest| left = *rest).is_some()
        };
        self.text = if self.keeps_end {
            let kept: Vec<char> = self.text.chars().rev().take_while(&mut fits).collect();
            std::iter::once('…').chain(kept.into_iter().rev()).collect()
        } else {
            self.text.chars().take_while(&mut fits).chain(['…']).collect()
        };
    }
}

/// Makes a cell.
pub(crate) fn cell(text: impl Display) -> Cell {
    styled(PLAIN, text)
}

/// Makes a cell with a style.
pub(crate) fn styled(style: Style, text: impl Display) -> Cell {
    Cell { text: escape(&text.to_string()).into_owned(), style, keeps_end: false }
}

/// Makes a cell whose end says more than its beginning, as of a path.
pub(crate) fn cell_keeping_end(text: impl Display) -> Cell {
    Cell { keeps_end: true, ..cell(text) }
}

fn paint(style: Style, text: &str, color: bool) -> String {
    if color && style != PLAIN { format!("{style}{text}{style:#}") } else { text.to_owned() }
}
