//! Draws the state of the screen. Pure, and the only module that decides how something looks.
//!
//! Colours are those of the terminal's own palette, so that they suit a light and a dark background.

use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::widgets::{Block, Clear, Widget as _};
use unicode_width::UnicodeWidthStr as _;
use waypost_core::time::format_duration;
use waypost_core::words::count;
use waypost_core::work::attention::GroupKind;

use super::model::{Action, List, Log, Mode, Model, Row, Tone};
use super::text::{end_of, fitted, wrapped};
use crate::escape::escape;
use crate::work::{group_title, group_words};

/// Width from which on the details are beside the list; below they are under it.
const WIDE: u16 = 110;
/// Maximum width of the column with the reason in a word or two.
const MAX_CHIP_WIDTH: u16 = 13;
/// Maximum number of lines about the last action.
const MAX_NOTICE_LINES: usize = 4;
/// The smallest screen that shows anything.
const MIN_SIZE: (u16, u16) = (20, 6);

/// The keys, as the help shows them.
const KEYS: [(&str, &str); 18] = [
    ("j k ↓ ↑", "next and previous row"),
    ("g g, G", "first and last row"),
    ("ctrl-d ctrl-u", "half a page down and up"),
    ("enter", "open the row: its details, or the log of a job"),
    ("l", "follow the log of the row's job"),
    ("a", "answer the question of a task"),
    ("space", "actions of the row, each with its command"),
    ("/", "show only rows, or lines of a log, with these words"),
    (": LIST WORDS", "open a list, with a filter: :issue login"),
    (": ACTION TEXT", "run an action of the row: :answer Use the first one"),
    ("g n, g t, g w", "Now, Tasks, Workflows"),
    ("g i, g a, g m", "Issues, Agents, Messages"),
    ("g s, g j, g e", "Workspaces, Jobs, Events"),
    ("esc", "back: ends the filter, then to the list before"),
    ("r, ctrl-l", "read again, draw again"),
    ("ctrl-z", "suspend"),
    ("?", "these keys"),
    ("q, ctrl-c", "quit"),
];

/// A text with a style.
type Span = (String, Style);

/// Draws everything. Returns where the cursor is, if the user types a text.
pub(super) fn render(model: &Model, has_color: bool, area: Rect, buffer: &mut Buffer) -> Option<Position> {
    let mut screen = Screen { model, has_color, buffer };
    if area.is_empty() {
        return None;
    }
    if area.width < MIN_SIZE.0 || area.height < MIN_SIZE.1 {
        let text = format!("needs {}x{}", MIN_SIZE.0, MIN_SIZE.1);
        screen.put(area.x, area.y, area.width, &text, Style::new());
        return None;
    }
    let footer = screen.footer_lines(area.width);
    let footer_height = u16::try_from(footer.len()).unwrap_or(1);
    screen.header(Rect { height: 1, ..area });
    screen.path(Rect { y: area.y + 1, height: 1, ..area });
    let body = Rect { y: area.y + 2, height: area.height.saturating_sub(2 + footer_height).max(1), ..area };
    match &model.mode {
        Mode::Log(log) => screen.log(log, body),
        Mode::Help => screen.help(body),
        Mode::Details { above } => screen.all_details(*above, body),
        _ => screen.list_and_details(body),
    }
    match &model.mode {
        Mode::Palette { actions, selected } => screen.palette(actions, *selected, body),
        Mode::Confirm { action, text } => screen.confirm(action, text.as_deref(), body),
        _ => {}
    }
    screen.footer(&footer, Rect { y: area.bottom() - footer_height, height: footer_height, ..area })
}

struct Screen<'a> {
    model: &'a Model,
    has_color: bool,
    buffer: &'a mut Buffer,
}

impl Screen<'_> {
    fn tone(&self, tone: Tone) -> Style {
        let style = Style::new();
        let colored = |color: Color| if self.has_color { style.fg(color) } else { style };
        match tone {
            Tone::Plain => style,
            Tone::Good => colored(Color::Green),
            Tone::Warn => colored(Color::Yellow),
            Tone::Bad => colored(Color::Red).add_modifier(Modifier::BOLD),
            Tone::Dim => style.add_modifier(Modifier::DIM),
        }
    }

    fn bold() -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    /// Writes a text into a part of a line, shortened if it is too long. Returns the column after it.
    fn put(&mut self, x: u16, y: u16, width: u16, text: &str, style: Style) -> u16 {
        let text = escape(text);
        let (end, _) = self.buffer.set_stringn(x, y, fitted(&text, usize::from(width)), usize::from(width), style);
        end
    }

    /// Writes spans beside each other. Returns the column after them.
    fn put_spans(&mut self, mut x: u16, y: u16, end: u16, spans: &[Span]) -> u16 {
        for (text, style) in spans {
            x = self.put(x, y, end.saturating_sub(x), text, *style);
        }
        x
    }

    /// Writes a text at the right end of a line. Returns the column before it.
    fn put_right(&mut self, area: Rect, text: &str, style: Style) -> u16 {
        let width = u16::try_from(escape(text).width()).unwrap_or(area.width).min(area.width);
        let x = area.right() - width;
        self.put(x, area.y, width, text, style);
        x
    }

    /// Writes the counts of the groups, and how old the data is.
    fn header(&mut self, area: Rect) {
        let (state, style) = match (self.model.stale_ms(), self.model.answered_ms) {
            (Some(age), _) => (format!(" {} old", format_duration(age)), self.tone(Tone::Bad)),
            (None, Some(_)) => (" live".to_owned(), self.tone(Tone::Good)),
            (None, None) => (" reading …".to_owned(), self.tone(Tone::Dim)),
        };
        let end = self.put_right(area, &state, style);
        let mut spans: Vec<Span> = vec![("way top".to_owned(), Self::bold())];
        if self.model.is_read_only {
            spans.push(("  read-only".to_owned(), self.tone(Tone::Dim)));
        }
        if let Some(page) = &self.model.page {
            spans.push((format!("  {}", page.repository), Style::new()));
            let shown: Vec<_> = page.totals.iter().filter(|(_, total)| *total > 0).collect();
            for (group, total) in &shown {
                let style = if *group == GroupKind::Done { self.tone(Tone::Dim) } else { self.group_style(*group) };
                spans.push((format!("  {total} {}", group_words(*group, *total)), style));
            }
            if shown.is_empty() {
                spans.push(("  idle".to_owned(), self.tone(Tone::Dim)));
            }
        }
        self.put_spans(area.x, area.y, end, &spans);
    }

    /// Writes where the user is, and the filter.
    fn path(&mut self, area: Rect) {
        let mut parts = vec![self.model.list.title().to_owned()];
        let mut filter = self.model.filter.as_str();
        match &self.model.mode {
            Mode::Log(log) => {
                parts.push(format!("log of {}", log.name));
                parts.extend(log.job.clone().filter(|job| *job != log.name));
                filter = &log.filter;
            }
            Mode::Details { .. } => parts.extend(self.model.row().map(|row| row.name.clone())),
            Mode::Help => parts.push("keys".to_owned()),
            _ => {}
        }
        let mut spans = vec![(parts.join(" › "), self.tone(Tone::Dim))];
        if !filter.is_empty() {
            spans.push((format!("  /{filter}"), self.tone(Tone::Warn)));
        }
        let position = match (&self.model.mode, self.model.rows().len()) {
            (Mode::Log(_) | Mode::Help | Mode::Details { .. }, _) | (_, 0) => String::new(),
            (_, rows) => format!(" {}/{rows}", self.model.selected + 1),
        };
        let end = self.put_right(area, &position, self.tone(Tone::Dim));
        self.put_spans(area.x, area.y, end, &spans);
    }

    fn list_and_details(&mut self, mut area: Rect) {
        let failure = self.model.failure.as_ref().map(|why| (format!("cannot read: {why}"), Tone::Bad));
        let warnings =
            self.model.page.iter().filter(|page| page.list == self.model.list).flat_map(|page| &page.warnings);
        let warnings = warnings.map(|warning| (format!("warning: {warning}"), Tone::Warn));
        for (text, tone) in failure.into_iter().chain(warnings) {
            for part in wrapped(&escape(&text), usize::from(area.width)) {
                if area.height < 3 {
                    break;
                }
                self.put(area.x, area.y, area.width, &part, self.tone(tone));
                area = Rect { y: area.y + 1, height: area.height - 1, ..area };
            }
        }
        if area.width >= WIDE {
            let width = area.width * 3 / 5;
            let side = Rect { x: area.x + width + 2, width: area.width - width - 2, ..area };
            for y in area.top()..area.bottom() {
                self.put(area.x + width, y, 1, "│", self.tone(Tone::Dim));
            }
            self.list(Rect { width: width - 1, ..area });
            return self.details(side);
        }
        let height = (area.height / 3).min(10);
        if height < 4 {
            return self.list(area);
        }
        let list = Rect { height: area.height - height, ..area };
        let below = Rect { y: area.y + list.height + 1, height: height - 1, ..area };
        let rule = "─".repeat(usize::from(area.width));
        self.put(area.x, area.y + list.height, area.width, &rule, self.tone(Tone::Dim));
        self.list(list);
        self.details(below);
    }

    fn list(&mut self, area: Rect) {
        let model = self.model;
        let rows = model.rows();
        if rows.is_empty() {
            return self.empty(area);
        }
        let mut lines = lines(&rows, model);
        let height = usize::from(area.height);
        if lines.len() > height {
            lines.retain(|line| *line != Line::Gap);
        }
        let at = lines.iter().position(|line| *line == Line::Row(model.selected)).unwrap_or(0);
        // The selected row is in the middle, unless the list begins or ends before that.
        let first = at.saturating_sub(height / 2).min(lines.len().saturating_sub(height));
        let columns = Columns::of(&rows, model, area.width);
        for (line, y) in lines.iter().skip(first).zip(area.top()..area.bottom()) {
            let place = Rect { y, height: 1, ..area };
            match line {
                Line::Heading(group, total) => self.heading(*group, *total, place),
                Line::Row(number) => self.row(rows[*number], *number == model.selected, columns, place),
                Line::More(text) => {
                    self.put(place.x, y, place.width, text, self.tone(Tone::Dim));
                }
                Line::Gap => {}
            }
        }
    }

    /// Says why a list has no rows: never nothing, because an empty screen looks like a failed read.
    fn empty(&mut self, area: Rect) {
        let is_loaded = self.model.page.as_ref().is_some_and(|page| page.list == self.model.list);
        let text = match (is_loaded, self.model.filter.is_empty()) {
            (false, _) if self.model.failure.is_some() => return,
            (false, _) => "reading …",
            (true, false) => "no row has these words; esc shows all",
            (true, true) => empty_text(self.model.list),
        };
        for (part, y) in wrapped(text, usize::from(area.width)).iter().zip(area.top()..area.bottom()) {
            self.put(area.x, y, area.width, part, self.tone(Tone::Dim));
        }
    }

    fn heading(&mut self, group: GroupKind, total: u64, area: Rect) {
        let title = format!("{} ", group_title(group));
        let x = self.put(area.x, area.y, area.width, &title, self.group_style(group).add_modifier(Modifier::BOLD));
        self.put(x, area.y, area.right().saturating_sub(x), &total.to_string(), self.tone(Tone::Dim));
    }

    fn group_style(&self, group: GroupKind) -> Style {
        self.tone(match group {
            GroupKind::NeedsYou => Tone::Warn,
            GroupKind::Stuck => Tone::Bad,
            GroupKind::Working => Tone::Good,
            GroupKind::Queued | GroupKind::Done => Tone::Plain,
        })
    }

    fn row(&mut self, row: &Row, is_selected: bool, columns: Columns, area: Rect) {
        self.put_right(area, &age(row, self.model), self.tone(Tone::Dim));
        let end = area.right().saturating_sub(columns.age + 1).max(area.x);
        let mark = if is_selected { "> " } else { "  " };
        let mut x = self.put(area.x, area.y, 2, mark, Style::new());
        self.put(x, area.y, columns.chip.min(end.saturating_sub(x)), &row.chip, self.tone(row.tone));
        x += columns.chip + 1;
        self.put(x, area.y, columns.name.min(end.saturating_sub(x)), &row.name, Style::new());
        x += columns.name + 2;
        if x < end {
            let room = end - x;
            let place = if row.place.is_empty() { String::new() } else { format!("  {}", row.place) };
            let place_width = u16::try_from(escape(&place).width()).unwrap_or(u16::MAX);
            let has_place = place_width > 0 && place_width.saturating_add(20) < room;
            let text_width = if has_place { room - place_width } else { room };
            let after = self.put(x, area.y, text_width, &row.text, Style::new());
            if has_place {
                self.put(after, area.y, end - after, &place, self.tone(Tone::Dim));
            }
        }
        if is_selected {
            self.buffer.set_style(area, Style::new().add_modifier(Modifier::REVERSED));
        }
    }

    /// Writes the name of a row with its reason, in one line.
    fn title(&mut self, row: &Row, area: Rect) {
        let spans = [
            (row.name.clone(), Self::bold()),
            (format!("  {}", row.chip), self.tone(row.tone)),
            (format!("  {}", row.id), self.tone(Tone::Dim)),
        ];
        let spans = if row.name == row.id { &spans[..2] } else { &spans[..] };
        self.put_spans(area.x, area.y, area.right(), spans);
    }

    fn details(&mut self, area: Rect) {
        let model = self.model;
        let Some(row) = model.row() else { return };
        self.title(row, area);
        let mut lines = model.detail_lines(area.width);
        if !model.is_read_only && !row.actions.is_empty() {
            let labels: Vec<&str> = row.actions.iter().map(|action| action.label).collect();
            lines.push(("space: ".to_owned(), labels.join(", ")));
        }
        let height = usize::from(area.height - 1);
        if height == 0 {
            return;
        }
        if lines.len() > height {
            // The last line says that there is more: nothing is silently cut.
            let hidden = lines.len() - height + 1;
            lines.truncate(height - 1);
            lines.push((format!("… {}: enter", count(hidden, "more line")), String::new()));
        }
        self.put_lines(&lines, Rect { y: area.y + 1, height: area.height - 1, ..area });
    }

    fn put_lines(&mut self, lines: &[(String, String)], area: Rect) {
        for ((title, text), y) in lines.iter().zip(area.top()..area.bottom()) {
            let x = self.put(area.x, y, area.width, title, self.tone(Tone::Dim));
            self.put(x, y, area.right().saturating_sub(x), text, Style::new());
        }
    }

    /// Draws the details of the selected row on the whole screen.
    fn all_details(&mut self, above: usize, area: Rect) {
        let model = self.model;
        let Some(row) = model.row() else { return };
        self.title(row, area);
        let lines = model.detail_lines(area.width);
        let rest = Rect { y: area.y + 1, height: area.height - 1, ..area };
        let above = above.min(lines.len().saturating_sub(usize::from(rest.height)));
        self.put_lines(&lines[above..], rest);
        let below = lines.len().saturating_sub(above + usize::from(rest.height));
        if below > 0 {
            let text = format!(" {}", count(below, "more line"));
            self.put_right(Rect { y: area.y, height: 1, ..area }, &text, self.tone(Tone::Warn));
        }
    }

    fn log(&mut self, log: &Log, area: Rect) {
        let screen = log.screen(area.width, area.height - 1);
        let is_whole = screen.len() < usize::from(area.height - 1);
        for (line, y) in screen.iter().zip(area.top()..area.bottom() - 1) {
            self.put(area.x, y, area.width, line, Style::new());
        }
        let (text, tone) = match (&log.job, &log.end) {
            _ if log.below > 0 && !is_whole => {
                (format!("{} below; G goes to the end", count(log.below, "line")), Tone::Warn)
            }
            (Some(_), _) if screen.is_empty() && !log.is_empty() => {
                ("no line has this text; esc shows all".to_owned(), Tone::Warn)
            }
            (Some(_), Some(end)) if log.is_empty() => (format!("no output; {end}"), Tone::Dim),
            (_, Some(end)) => (end.clone(), Tone::Dim),
            (None, None) => ("reading …".to_owned(), Tone::Dim),
            (Some(_), None) if log.is_empty() => ("no output yet; following".to_owned(), Tone::Good),
            (Some(_), None) => ("following".to_owned(), Tone::Good),
        };
        self.put(area.x, area.bottom() - 1, area.width, &text, self.tone(tone));
    }

    fn help(&mut self, area: Rect) {
        for ((keys, what), y) in KEYS.iter().zip(area.top()..area.bottom()) {
            self.put(area.x + 2, y, 15, keys, Self::bold());
            let x = area.x + 18;
            self.put(x, y, area.right().saturating_sub(x), what, Style::new());
        }
        let y = area.y + u16::try_from(KEYS.len()).unwrap_or(u16::MAX) + 1;
        if y < area.bottom() {
            let text = "The same as text: way status, way task list, way job list, …";
            self.put(area.x + 2, y, area.width.saturating_sub(2), text, self.tone(Tone::Dim));
        }
    }

    /// Draws an empty box for a number of lines. Returns its inside.
    fn boxed(&mut self, title: &str, width: usize, height: usize, area: Rect) -> Rect {
        let width = u16::try_from(width + 4).unwrap_or(u16::MAX).clamp(30, area.width.max(30)).min(area.width);
        let height = u16::try_from(height + 2).unwrap_or(u16::MAX).min(area.height);
        let (x, y) = (area.x + (area.width - width) / 2, area.y + (area.height - height) / 3);
        let area = Rect { x, y, width, height };
        Clear.render(area, self.buffer);
        Block::bordered().title(title).style(self.tone(Tone::Dim)).render(area, self.buffer);
        let inside = Rect { x: x + 2, y: y + 1, width: width - 4, height: height.saturating_sub(2) };
        // What was there before is not dim because of the box.
        self.buffer.set_style(inside, Style::reset());
        inside
    }

    /// Draws the actions that are valid for the selected row.
    fn palette(&mut self, actions: &[Action], selected: usize, area: Rect) {
        let label_width = actions.iter().map(|action| action.label.width()).max().unwrap_or(0);
        let command_width = actions.iter().map(|action| action.shown().width()).max().unwrap_or(0);
        let inside = self.boxed(" actions ", 2 + label_width + 2 + command_width, actions.len(), area);
        let label_width = u16::try_from(label_width).unwrap_or(inside.width);
        let first = (selected + 1).saturating_sub(usize::from(inside.height));
        for ((number, action), y) in actions.iter().enumerate().skip(first).zip(inside.top()..inside.bottom()) {
            let line = Rect { y, height: 1, ..inside };
            let mark = if number == selected { "> " } else { "  " };
            let x = self.put(line.x, y, 2, mark, Style::new());
            self.put(x, y, label_width.min(line.right().saturating_sub(x)), action.label, Self::bold());
            let x = x + label_width + 2;
            self.put(x, y, line.right().saturating_sub(x), &action.shown(), self.tone(Tone::Dim));
            if number == selected {
                self.buffer.set_style(line, Style::new().add_modifier(Modifier::REVERSED));
            }
        }
    }

    /// Draws the question before an action by which work could be lost or stop.
    fn confirm(&mut self, action: &Action, text: Option<&str>, area: Rect) {
        let question = action.confirm.as_deref().unwrap_or(action.label);
        let width = usize::from(area.width.saturating_sub(4)).min(70);
        let mut lines: Vec<Span> =
            wrapped(&escape(question), width).into_iter().map(|part| (part, Style::new())).collect();
        lines.push((String::new(), Style::new()));
        let command = match text {
            Some(text) => format!("{}: {text}", action.label),
            None => action.shown(),
        };
        lines.extend(wrapped(&escape(&command), width).into_iter().map(|part| (part, self.tone(Tone::Dim))));
        let widest = lines.iter().map(|(text, _)| text.width()).max().unwrap_or(0);
        let inside = self.boxed(&format!(" {} ", action.label), widest, lines.len(), area);
        for ((text, style), y) in lines.iter().zip(inside.top()..inside.bottom()) {
            self.put(inside.x, y, inside.width, text, *style);
        }
    }

    /// Returns the text that the user types, after its prompt.
    fn typed(&self) -> Option<(String, &str)> {
        match &self.model.mode {
            Mode::Filter => Some(("/".to_owned(), &self.model.filter)),
            Mode::Log(log) if log.is_filtering => Some(("/".to_owned(), &log.filter)),
            Mode::Command(text) => Some((":".to_owned(), text)),
            Mode::Input { action, text } => Some((format!("{}: ", action.input.unwrap_or(action.label)), text)),
            _ => None,
        }
    }

    /// Returns the last lines: the result of the last action, or the keys.
    fn footer_lines(&self, width: u16) -> Vec<Span> {
        let mut is_notice = false;
        let (text, tone) = match (&self.model.mode, &self.model.notice) {
            (Mode::Go, _) => {
                let lists = List::ALL.map(|list| format!("{} {}", list.key(), list.name()));
                (format!("g: {}", lists.join("  ")), Tone::Plain)
            }
            (Mode::Confirm { .. }, _) => ("y: do it   any other key: back".to_owned(), Tone::Warn),
            (Mode::Palette { .. }, _) => ("j k: choose   enter: do it   esc: back".to_owned(), Tone::Dim),
            (Mode::Log(_), _) => ("j k g G: scroll   /: filter   esc: back   q: quit".to_owned(), Tone::Dim),
            (Mode::Help, _) => ("any key: back".to_owned(), Tone::Dim),
            (_, Some(notice)) => {
                is_notice = true;
                (notice.text.clone(), notice.tone)
            }
            (Mode::Details { .. }, _) => {
                ("j k: scroll   l: log   a: answer   space: actions   esc: back".to_owned(), Tone::Dim)
            }
            _ => {
                let keys = "enter: open  l: log  a: answer  space: actions  :  /  g  ?: keys  q: quit";
                (keys.to_owned(), Tone::Dim)
            }
        };
        if self.typed().is_some() {
            return vec![(String::new(), Style::new())];
        }
        if !is_notice {
            return vec![(text, self.tone(tone))];
        }
        let lines = text.lines().flat_map(|line| wrapped(&escape(line), usize::from(width)));
        let mut lines: Vec<Span> = lines.map(|part| (part, self.tone(tone))).collect();
        if lines.len() > MAX_NOTICE_LINES {
            lines.truncate(MAX_NOTICE_LINES);
            if let Some((last, _)) = lines.last_mut() {
                *last = format!("{} …", fitted(last, usize::from(width).saturating_sub(2)).trim_end_matches('…'));
            }
        }
        if lines.is_empty() { vec![(String::new(), Style::new())] } else { lines }
    }

    /// Writes the last lines, or what the user types. Returns where the cursor is.
    fn footer(&mut self, lines: &[Span], area: Rect) -> Option<Position> {
        let Some((prompt, text)) = self.typed() else {
            for ((text, style), y) in lines.iter().zip(area.top()..area.bottom()) {
                self.put(area.x, y, area.width, text, *style);
            }
            return None;
        };
        let text = escape(text).into_owned();
        let hint = match &self.model.mode {
            Mode::Command(typed) if !typed.contains(' ') => self.model.completions(typed).join(" "),
            Mode::Input { .. } => "enter: send  esc: back".to_owned(),
            _ => String::new(),
        };
        let x = self.put(area.x, area.y, area.width, &prompt, Self::bold());
        let room = usize::from(area.right().saturating_sub(x + 1));
        let end = self.put(x, area.y, area.right().saturating_sub(x), end_of(&text, room), Style::new());
        let left = area.right().saturating_sub(end + 3);
        if usize::from(left) >= hint.width().min(12) {
            self.put(end + 3, area.y, left, &hint, self.tone(Tone::Dim));
        }
        Some(Position { x: end.min(area.right() - 1), y: area.y })
    }
}

/// A line of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Line {
    Heading(GroupKind, u64),
    Row(usize),
    More(String),
    Gap,
}

/// Returns the lines of a list: rows under the headings of their groups.
fn lines(rows: &[&Row], model: &Model) -> Vec<Line> {
    let mut lines = Vec::new();
    let mut group = None;
    let page = model.page.as_ref();
    for (number, row) in rows.iter().enumerate() {
        if let Some(new) = row.group.filter(|new| group != Some(*new)) {
            if group.is_some() {
                lines.push(Line::Gap);
            }
            let total =
                page.and_then(|page| page.totals.iter().find(|(known, _)| *known == new)).map(|(_, total)| *total);
            let shown = rows.iter().filter(|row| row.group == Some(new)).count() as u64;
            lines.push(Line::Heading(new, total.filter(|_| model.filter.is_empty()).unwrap_or(shown)));
            group = Some(new);
        }
        lines.push(Line::Row(number));
    }
    if let Some(page) = page.filter(|page| page.has_more) {
        let shown = page.rows.len();
        lines.push(Line::More(format!("  only these {shown} were read; {} lists all", all_command(model.list))));
    }
    lines
}

/// The widths of columns.
#[derive(Clone, Copy)]
struct Columns {
    chip: u16,
    name: u16,
    age: u16,
}

impl Columns {
    /// As wide as the longest text; names have at most a part of the line.
    fn of(rows: &[&Row], model: &Model, width: u16) -> Columns {
        let longest = |widths: &mut dyn Iterator<Item = usize>| {
            u16::try_from(widths.max().unwrap_or(0)).unwrap_or(u16::MAX).min(width)
        };
        let chip = longest(&mut rows.iter().map(|row| escape(&row.chip).width())).min(MAX_CHIP_WIDTH);
        let age = longest(&mut rows.iter().map(|row| age(row, model).width()));
        let most = width.saturating_sub(chip + age) * 2 / 5;
        Columns { chip, name: longest(&mut rows.iter().map(|row| escape(&row.name).width())).min(most), age }
    }
}

/// Returns since when a row is as it is.
fn age(row: &Row, model: &Model) -> String {
    row.since.zip(model.now()).map(|(since, now)| since.ago(now)).unwrap_or_default()
}

fn empty_text(list: List) -> &'static str {
    match list {
        List::Now => "nothing to do; to plan some work: way workflow create NAME --plan FILE --start",
        List::Tasks => {
            "no tasks of live workflows; g w lists all workflows; to plan one: way workflow create NAME --plan FILE --start"
        }
        List::Workflows => "no workflows; to plan one: way workflow create NAME --plan FILE --start",
        List::Issues => "no open issues; to add one: way add TITLE",
        List::Agents => "no agents; the first command with --agent NAME registers one",
        List::Messages => "no messages wait for you; to send one: way msg send AGENT TEXT",
        List::Workspaces => "no workspaces; every job makes one: way job start -- COMMAND",
        List::Jobs => "no jobs; to run one: way job start -- COMMAND",
        List::Events => "no events; every change adds one",
    }
}

/// Returns the command that lists everything.
fn all_command(list: List) -> &'static str {
    match list {
        List::Now => "way status --limit 10000",
        List::Tasks => "way task list --limit 0",
        List::Workflows => "way workflow list --limit 0",
        List::Issues => "way list --limit 0",
        List::Agents => "way agent list",
        List::Messages => "way msg inbox --limit 10000",
        List::Workspaces => "way ws list",
        List::Jobs => "way job list --limit 10000",
        List::Events => "way events --since 0",
    }
}
