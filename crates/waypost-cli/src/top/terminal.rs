//! The terminal: raw mode, the alternate screen, and a backend that writes ANSI sequences.

use std::io::{self, IsTerminal as _, Write};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::{Mutex, PoisonError};

use ratatui_core::backend::{Backend, ClearType, WindowSize};
use ratatui_core::buffer::Cell;
use ratatui_core::layout::{Position, Size};
use ratatui_core::style::{Color, Modifier};
use rustix::process::{Signal, getpid, kill_process};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use waypost_core::{Error, Result};

/// Opens the alternate screen, hides the cursor, and marks pasted text.
const ENTER: &[u8] = b"\x1b[?1049h\x1b[?25l\x1b[?2004h";
/// Undoes [`ENTER`].
const LEAVE: &[u8] = b"\x1b[0m\x1b[?2004l\x1b[?25h\x1b[?1049l";
/// The size of a terminal that does not tell it.
const DEFAULT_SIZE: (u16, u16) = (80, 24);

/// The settings of the terminal before it was changed, while it is changed. A panic restores them, too.
static SAVED: Mutex<Option<Termios>> = Mutex::new(None);

/// Fails unless keys can be read and a screen can be drawn.
pub(crate) fn check_terminal() -> Result<()> {
    let missing = if !io::stdout().is_terminal() {
        "standard output"
    } else if !io::stdin().is_terminal() {
        "standard input"
    } else {
        return Ok(());
    };
    Err(Error::invalid(format!("way top needs a terminal, and {missing} is none"))
        .hint("way status prints the same as text"))
}

/// A terminal in raw mode, with the alternate screen. It is restored when this is dropped.
pub(super) struct RawTerminal {
    /// The settings of raw mode.
    settings: Termios,
}

impl RawTerminal {
    /// Changes the terminal.
    pub(super) fn enter() -> Result<RawTerminal> {
        let previous = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            // The message would be invisible on the alternate screen.
            restore();
            previous(panic);
            // A panic in a thread that reads must not leave a screen that never changes again.
            std::process::abort();
        }));
        Ok(RawTerminal { settings: set_raw()? })
    }

    /// Gives the terminal back to the shell until this process continues.
    pub(super) fn suspend(&mut self) -> Result<()> {
        restore();
        let stopped = kill_process(getpid(), Signal::TSTP);
        stopped.map_err(|error| Error::unavailable("cannot suspend this process").because(error))?;
        self.settings = set_raw()?;
        Ok(())
    }

    /// Makes sure that the terminal is in raw mode: a shell changes it while this process is stopped.
    pub(super) fn refresh(&self) -> Result<()> {
        tcsetattr(io::stdin(), OptionalActions::Now, &self.settings).map_err(cannot_change)
    }
}

impl Drop for RawTerminal {
    fn drop(&mut self) {
        restore();
    }
}

/// Returns the settings of raw mode.
fn set_raw() -> Result<Termios> {
    let before = tcgetattr(io::stdin()).map_err(cannot_change)?;
    let mut raw = before.clone();
    raw.make_raw();
    *SAVED.lock().unwrap_or_else(PoisonError::into_inner) = Some(before);
    tcsetattr(io::stdin(), OptionalActions::Flush, &raw).map_err(cannot_change)?;
    write(ENTER)?;
    Ok(raw)
}

fn cannot_change(error: rustix::io::Errno) -> Error {
    Error::unavailable("cannot change the terminal").because(error)
}

fn restore() {
    let saved = SAVED.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(before) = saved {
        let _ = write(LEAVE);
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &before);
    }
}

fn write(bytes: &[u8]) -> Result<()> {
    let mut out = io::stdout().lock();
    let written = out.write_all(bytes).and_then(|()| out.flush());
    written.map_err(|error| Error::unavailable("cannot write to the terminal").because(error))
}

/// Returns the columns and lines of the terminal.
pub(super) fn size() -> (u16, u16) {
    size_of(io::stdout().as_fd())
}

fn size_of(terminal: BorrowedFd<'_>) -> (u16, u16) {
    match tcgetwinsize(terminal) {
        Ok(size) if size.ws_col > 0 && size.ws_row > 0 => (size.ws_col, size.ws_row),
        _ => DEFAULT_SIZE,
    }
}

/// Draws with ANSI sequences. Collects everything of a frame, and writes it at once.
pub(super) struct Ansi<W: Write> {
    out: W,
    frame: Vec<u8>,
}

impl<W: Write> Ansi<W> {
    pub(super) fn new(out: W) -> Ansi<W> {
        Ansi { out, frame: Vec::new() }
    }

    fn push(&mut self, text: &str) {
        self.frame.extend_from_slice(text.as_bytes());
    }
}

/// Returns the sequence that sets exactly this style.
fn sequence(foreground: Color, background: Color, modifier: Modifier) -> String {
    let mut codes = vec!["0".to_owned()];
    let modifiers = [
        (Modifier::BOLD, "1"),
        (Modifier::DIM, "2"),
        (Modifier::ITALIC, "3"),
        (Modifier::UNDERLINED, "4"),
        (Modifier::REVERSED, "7"),
    ];
    codes.extend(modifiers.iter().filter(|(one, _)| modifier.contains(*one)).map(|(_, code)| (*code).to_owned()));
    codes.extend(color(foreground).map(|code| code.to_string()));
    codes.extend(color(background).map(|code| (code + 10).to_string()));
    format!("\x1b[{}m", codes.join(";"))
}

/// Returns the code of a foreground colour. Only the sixteen of the terminal's palette are used.
fn color(color: Color) -> Option<u8> {
    Some(match color {
        Color::Black => 30,
        Color::Red => 31,
        Color::Green => 32,
        Color::Yellow => 33,
        Color::Blue => 34,
        Color::Magenta => 35,
        Color::Cyan => 36,
        Color::Gray => 37,
        Color::DarkGray => 90,
        Color::LightRed => 91,
        Color::LightGreen => 92,
        Color::LightYellow => 93,
        Color::LightBlue => 94,
        Color::LightMagenta => 95,
        Color::LightCyan => 96,
        Color::White => 97,
        Color::Reset | Color::Rgb(..) | Color::Indexed(_) => return None,
    })
}

impl<W: Write> Backend for Ansi<W> {
    type Error = io::Error;

    fn draw<'a, I>(&mut self, content: I) -> io::Result<()>
    where
        I: Iterator<Item = (u16, u16, &'a Cell)>,
    {
        let mut next: Option<(u16, u16)> = None;
        let mut style = None;
        for (x, y, cell) in content {
            // A wide character takes several cells, so the position after it is set again.
            if next != Some((x, y)) {
                self.push(&format!("\x1b[{};{}H", y + 1, x + 1));
            }
            next = Some((x + 1, y)).filter(|_| cell.symbol().is_ascii());
            let wanted = (cell.fg, cell.bg, cell.modifier);
            if style != Some(wanted) {
                self.push(&sequence(cell.fg, cell.bg, cell.modifier));
                style = Some(wanted);
            }
            self.push(cell.symbol());
        }
        self.push("\x1b[0m");
        Ok(())
    }

    fn hide_cursor(&mut self) -> io::Result<()> {
        self.push("\x1b[?25l");
        Ok(())
    }

    fn show_cursor(&mut self) -> io::Result<()> {
        self.push("\x1b[?25h");
        Ok(())
    }

    fn get_cursor_position(&mut self) -> io::Result<Position> {
        // Only inline screens need it.
        Ok(Position { x: 0, y: 0 })
    }

    fn set_cursor_position<P: Into<Position>>(&mut self, position: P) -> io::Result<()> {
        let Position { x, y } = position.into();
        self.push(&format!("\x1b[{};{}H", y + 1, x + 1));
        Ok(())
    }

    fn clear(&mut self) -> io::Result<()> {
        self.clear_region(ClearType::All)
    }

    fn clear_region(&mut self, region: ClearType) -> io::Result<()> {
        self.push(match region {
            ClearType::All => "\x1b[2J",
            ClearType::AfterCursor => "\x1b[J",
            ClearType::BeforeCursor => "\x1b[1J",
            ClearType::CurrentLine => "\x1b[2K",
            ClearType::UntilNewLine => "\x1b[K",
        });
        Ok(())
    }

    fn size(&self) -> io::Result<Size> {
        let (width, height) = size();
        Ok(Size { width, height })
    }

    fn window_size(&mut self) -> io::Result<WindowSize> {
        Ok(WindowSize { columns_rows: self.size()?, pixels: Size { width: 0, height: 0 } })
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.write_all(&self.frame)?;
        self.frame.clear();
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use ratatui_core::buffer::Buffer;
    use ratatui_core::layout::Rect;
    use ratatui_core::style::Style;

    use super::*;

    #[test]
    fn a_frame_is_written_at_once_and_sets_each_style_and_position_when_it_changes() {
        let mut buffer = Buffer::empty(Rect::new(0, 0, 6, 2));
        buffer.set_string(0, 0, "ab", Style::new().fg(Color::Red));
        buffer.set_string(2, 0, "c", Style::new().add_modifier(Modifier::REVERSED));
        buffer.set_string(0, 1, "漢x", Style::new());
        let before = Buffer::empty(Rect::new(0, 0, 6, 2));
        let mut written = Vec::new();
        let mut ansi = Ansi::new(&mut written);
        ansi.draw(before.diff(&buffer).into_iter()).unwrap();
        ansi.flush().unwrap();
        let text = String::from_utf8(written).unwrap();
        assert_eq!(text, "\x1b[1;1H\x1b[0;31mab\x1b[0;7mc\x1b[2;1H\x1b[0m漢\x1b[2;3Hx\x1b[0m");
    }

    #[test]
    fn a_panic_on_the_screen_restores_the_terminal_before_its_message() {
        const TEST: &str = "top::terminal::tests::a_panic_on_the_screen_restores_the_terminal_before_its_message";
        let Some(text) = waypost_testkit::on_own_terminal(TEST) else {
            let raw = RawTerminal::enter().unwrap();
            // In another thread, as the one that reads.
            let _ = std::thread::spawn(|| panic!("the reason")).join();
            drop(raw);
            unreachable!("the process has ended");
        };
        let at = |part: &str| text.find(part).unwrap_or_else(|| panic!("{part:?} in {text:?}"));
        let (enter, leave) = (std::str::from_utf8(ENTER).unwrap(), std::str::from_utf8(LEAVE).unwrap());
        assert!(at(enter) < at(leave) && at(leave) < at("the reason"), "{text:?}");
        assert!(at("ended 134") > at("the reason"), "it aborts: {text:?}");
        assert_eq!(text.lines().next(), text.lines().last(), "the settings of the terminal");
    }
}
