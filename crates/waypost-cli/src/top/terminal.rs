//! The terminal: raw mode, the alternate screen, and the keys.

use std::io::{self, BufWriter, IsTerminal as _, Stdout};

use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::event::{DisableBracketedPaste, EnableBracketedPaste, Event, KeyCode, KeyModifiers};
use ratatui::crossterm::style::{Attribute, SetAttribute, force_color_output};
use ratatui::crossterm::terminal::{
    EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode, is_raw_mode_enabled,
};
use ratatui::crossterm::{cursor, execute};
use ratatui::layout::Rect;
use ratatui::{Terminal, TerminalOptions, Viewport};
use rustix::process::{Signal, getpid, kill_process};
use rustix::termios::tcgetwinsize;
use waypost_core::{Error, Result};

use super::model::{Key, Model};
use super::view::render;

/// The size of a terminal that does not tell it.
const DEFAULT_SIZE: (u16, u16) = (80, 24);

/// Fails unless keys can be read and a screen can be drawn.
pub(crate) fn check_terminal() -> Result<()> {
    let missing = if !io::stdout().is_terminal() {
        "standard output"
    } else if !io::stdin().is_terminal() {
        "standard input"
    } else {
        return Ok(());
    };
    Err(Error::invalid(format!("way top needs a terminal, but {missing} is not one"))
        .hint("way status prints the same as text"))
}

/// Returns the columns and lines of the terminal.
pub(super) fn size() -> (u16, u16) {
    match tcgetwinsize(io::stdout()) {
        Ok(size) if size.ws_col > 0 && size.ws_row > 0 => (size.ws_col, size.ws_row),
        _ => DEFAULT_SIZE,
    }
}

/// Returns the keys of an event: none if it has no meaning here.
pub(super) fn keys(event: Event) -> Vec<Key> {
    let event = match event {
        Event::Paste(text) => return vec![Key::Paste(text)],
        Event::Key(event) => event,
        _ => return Vec::new(),
    };
    let key = match event.code {
        KeyCode::Char('j' | 'm') if event.modifiers.contains(KeyModifiers::CONTROL) => Key::Enter,
        KeyCode::Char('h') if event.modifiers.contains(KeyModifiers::CONTROL) => Key::Backspace,
        KeyCode::Char(char) if event.modifiers.contains(KeyModifiers::CONTROL) => Key::Ctrl(char),
        KeyCode::Char(char) => Key::Char(char),
        KeyCode::Enter => Key::Enter,
        KeyCode::Esc => Key::Escape,
        KeyCode::Tab => Key::Tab,
        KeyCode::Backspace => Key::Backspace,
        KeyCode::Up => Key::Up,
        KeyCode::Down => Key::Down,
        KeyCode::PageUp => Key::PageUp,
        KeyCode::PageDown => Key::PageDown,
        KeyCode::Home => Key::Home,
        KeyCode::End => Key::End,
        _ => return Vec::new(),
    };
    // Escape, and a key right after it, look like Alt with that key.
    let escape = event.modifiers.contains(KeyModifiers::ALT).then_some(Key::Escape);
    escape.into_iter().chain([key]).collect()
}

/// A terminal in raw mode, with the alternate screen. It is restored when this is dropped.
pub(super) struct RawTerminal {
    terminal: Terminal<CrosstermBackend<BufWriter<Stdout>>>,
    has_color: bool,
}

impl RawTerminal {
    /// Changes the terminal.
    pub(super) fn enter(has_color: bool) -> Result<RawTerminal> {
        let previous = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            // The main thread draws nothing more.
            let _drawing = io::stdout().lock();
            // The message would be invisible on the alternate screen.
            restore();
            previous(panic);
            // A panic in a thread that reads must not leave a screen that never changes again.
            std::process::abort();
        }));
        // Decided before. The library would ask the environment again.
        force_color_output(has_color);
        change()?;
        // The library would start a program to find out the size of a terminal that does not tell it.
        let options = TerminalOptions { viewport: Viewport::Fixed(area()) };
        let backend = CrosstermBackend::new(BufWriter::new(io::stdout()));
        let terminal = Terminal::with_options(backend, options).map_err(cannot_draw)?;
        Ok(RawTerminal { terminal, has_color })
    }

    pub(super) fn draw(&mut self, model: &Model) -> Result<()> {
        let has_color = self.has_color;
        let drawn = self.terminal.draw(|frame| {
            if let Some(cursor) = render(model, has_color, frame.area(), frame.buffer_mut()) {
                frame.set_cursor_position(cursor);
            }
        });
        drawn.map(drop).map_err(cannot_draw)
    }

    /// Makes the next frame draw everything, in the present size.
    pub(super) fn clear(&mut self) -> Result<()> {
        // Its own `clear` would ask the terminal for the cursor, and the answer would come as a key.
        self.terminal.resize(area()).map_err(cannot_draw)
    }

    /// Gives the terminal back to the shell until this process continues.
    pub(super) fn suspend(&mut self) -> Result<()> {
        restore();
        let stopped = kill_process(getpid(), Signal::TSTP);
        stopped.map_err(|error| Error::unavailable("cannot suspend this process").because(error))?;
        change()?;
        self.clear()
    }

    /// Changes the terminal again: a shell changes its mode and its way to paste while this process is stopped.
    pub(super) fn refresh(&mut self) -> Result<()> {
        disable_raw_mode().map_err(cannot_change)?;
        change()?;
        self.clear()
    }
}

impl Drop for RawTerminal {
    fn drop(&mut self) {
        restore();
    }
}

fn area() -> Rect {
    let (width, height) = size();
    Rect { x: 0, y: 0, width, height }
}

fn change() -> Result<()> {
    let changed = enable_raw_mode()
        .and_then(|()| execute!(io::stdout(), EnterAlternateScreen, cursor::Hide, EnableBracketedPaste));
    changed.map_err(cannot_change)
}

/// Undoes [`change`], once.
fn restore() {
    if is_raw_mode_enabled().is_ok_and(|is_raw| is_raw) {
        let reset = SetAttribute(Attribute::Reset);
        let _ = execute!(io::stdout(), reset, DisableBracketedPaste, cursor::Show, LeaveAlternateScreen);
        let _ = disable_raw_mode();
    }
}

fn cannot_change(error: io::Error) -> Error {
    Error::unavailable("cannot change the terminal").because(error)
}

fn cannot_draw(error: io::Error) -> Error {
    Error::unavailable("cannot draw on the terminal").because(error)
}

#[cfg(test)]
mod tests {
    use ratatui::crossterm::event::KeyEvent;

    use super::*;

    #[test]
    fn keys_have_the_meaning_that_terminals_give_them() {
        let pressed = |code, modifiers| keys(Event::Key(KeyEvent::new(code, modifiers)));
        let ctrl = |char| pressed(KeyCode::Char(char), KeyModifiers::CONTROL);
        assert_eq!(pressed(KeyCode::Char('G'), KeyModifiers::SHIFT), [Key::Char('G')]);
        assert_eq!(ctrl('c'), [Key::Ctrl('c')]);
        assert_eq!([ctrl('j'), ctrl('m'), ctrl('h')].concat(), [Key::Enter, Key::Enter, Key::Backspace]);
        assert_eq!(pressed(KeyCode::Char('x'), KeyModifiers::ALT), [Key::Escape, Key::Char('x')]);
        assert_eq!(keys(Event::Paste("a\nb".to_owned())), [Key::Paste("a\nb".to_owned())]);
        assert_eq!((pressed(KeyCode::F(1), KeyModifiers::NONE), keys(Event::FocusLost)), (Vec::new(), Vec::new()));
    }

    #[test]
    fn a_panic_on_the_screen_restores_the_terminal_before_its_message() {
        const TEST: &str = "top::terminal::tests::a_panic_on_the_screen_restores_the_terminal_before_its_message";
        let Some(text) = waypost_testkit::on_own_terminal(TEST) else {
            let raw = RawTerminal::enter(true).unwrap();
            // In another thread, as the one that reads.
            let _ = std::thread::spawn(|| panic!("the reason")).join();
            drop(raw);
            unreachable!("the process has ended");
        };
        let at = |part: &str| text.find(part).unwrap_or_else(|| panic!("{part:?} in {text:?}"));
        let (enter, leave) = ("\x1b[?1049h\x1b[?25l\x1b[?2004h", "\x1b[0m\x1b[?2004l\x1b[?25h\x1b[?1049l");
        assert!(at(enter) < at(leave) && at(leave) < at("the reason"), "{text:?}");
        assert!(at("ended 134") > at("the reason"), "it aborts: {text:?}");
        assert_eq!(text.lines().next(), text.lines().last(), "the settings of the terminal");
    }
}
