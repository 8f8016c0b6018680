//! The state of the screen, and how keys and new data change it. Pure: time and data arrive as messages.

use waypost_core::time::Timestamp;
use waypost_core::work::attention::GroupKind;

use super::text::{field_lines, plain, wrapped};

/// Age of the data, in milliseconds, from which on the screen says how old it is.
const MAX_LIVE_MS: u64 = 6_000;
/// Maximum number of lines of a log that are kept.
const MAX_LOG_LINES: usize = 10_000;
/// Maximum length of a text that is typed, in characters.
const MAX_INPUT_CHARS: usize = 4_000;
/// Lines of the screen around a text that fills it: the header, the path and the keys, and the line below a log.
const LINES_AROUND: u16 = 4;
/// Words of `:` that are neither lists nor actions.
const QUIT_WORDS: [&str; 3] = ["q", "q!", "quit"];

/// A list of the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum List {
    /// Everything by who has to act next, as `way status` groups it.
    Now,
    Tasks,
    Workflows,
    Issues,
    Agents,
    Messages,
    Workspaces,
    Jobs,
    Events,
}

impl List {
    pub(super) const ALL: [List; 9] = [
        List::Now,
        List::Tasks,
        List::Workflows,
        List::Issues,
        List::Agents,
        List::Messages,
        List::Workspaces,
        List::Jobs,
        List::Events,
    ];

    /// Returns its title, as on the dashboard.
    pub(super) fn title(self) -> &'static str {
        match self {
            List::Now => "Now",
            List::Tasks => "Tasks",
            List::Workflows => "Workflows",
            List::Issues => "Issues",
            List::Agents => "Agents",
            List::Messages => "Messages",
            List::Workspaces => "Workspaces",
            List::Jobs => "Jobs",
            List::Events => "Events",
        }
    }

    /// Returns the words that name it after a colon. The first one is the noun of its commands.
    fn words(self) -> &'static [&'static str] {
        match self {
            List::Now => &["now", "status"],
            List::Tasks => &["task", "tasks"],
            List::Workflows => &["workflow", "workflows"],
            List::Issues => &["issue", "issues"],
            List::Agents => &["agent", "agents"],
            List::Messages => &["msg", "message", "messages", "inbox"],
            List::Workspaces => &["ws", "workspace", "workspaces"],
            List::Jobs => &["job", "jobs"],
            List::Events => &["event", "events"],
        }
    }

    pub(super) fn name(self) -> &'static str {
        self.words()[0]
    }

    /// Returns the key that opens it after `g`, as on the dashboard.
    pub(super) fn key(self) -> char {
        match self {
            List::Now => 'n',
            List::Tasks => 't',
            List::Workflows => 'w',
            List::Issues => 'i',
            List::Agents => 'a',
            List::Messages => 'm',
            List::Workspaces => 's',
            List::Jobs => 'j',
            List::Events => 'e',
        }
    }
}

/// A key, or a text that was pasted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Key {
    Char(char),
    Ctrl(char),
    Enter,
    Escape,
    Tab,
    Backspace,
    Up,
    Down,
    PageUp,
    PageDown,
    Home,
    End,
    Paste(String),
}

/// How a text is coloured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Tone {
    #[default]
    Plain,
    Good,
    Warn,
    Bad,
    Dim,
}

/// The kind of record that a row is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Record {
    Task,
    Workflow,
    Workspace,
    Message,
    Agent,
    Issue,
    Job,
    Event,
}

impl Record {
    /// Returns whether a job's log belongs to it.
    fn has_log(self) -> bool {
        matches!(self, Record::Task | Record::Job | Record::Workspace)
    }
}

/// An action, and the command that does the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Action {
    /// What it does, in a word or two.
    pub(super) label: &'static str,
    /// The command after `way`.
    pub(super) command: Vec<String>,
    /// What the user has to type, if anything.
    pub(super) input: Option<&'static str>,
    /// The question to ask first, because work could be lost or stop.
    pub(super) confirm: Option<String>,
}

impl Action {
    /// Returns the command as the user would type it.
    pub(super) fn shown(&self) -> String {
        shown(&self.with(self.input.map(str::to_uppercase).as_deref()))
    }

    /// Returns the command with the text that the user typed: the value of its last option, or its last argument.
    fn with(&self, text: Option<&str>) -> Vec<String> {
        let mut command = self.command.clone();
        match (text, command.last_mut()) {
            (Some(text), Some(last)) if last.ends_with('=') => last.push_str(text),
            (Some(text), _) => {
                // A text may begin like an option.
                command.extend(text.starts_with('-').then(|| "--".to_owned()));
                command.push(text.to_owned());
            }
            (None, _) => {}
        }
        command
    }
}

/// Returns a command of `way` as the user would type it.
fn shown(command: &[String]) -> String {
    std::iter::once("way".to_owned()).chain(command.iter().map(|word| quoted(word))).collect::<Vec<_>>().join(" ")
}

/// Quotes a word for a shell, if that is necessary.
fn quoted(word: &str) -> String {
    let is_plain = |char: char| char.is_ascii_alphanumeric() || "-_./:=@%+,".contains(char);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// A row of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) record: Record,
    pub(super) id: String,
    /// The group of the status, in [`List::Now`].
    pub(super) group: Option<GroupKind>,
    pub(super) chip: String,
    pub(super) tone: Tone,
    pub(super) name: String,
    pub(super) text: String,
    pub(super) place: String,
    pub(super) since: Option<Timestamp>,
    pub(super) actions: Vec<Action>,
}

impl Row {
    /// Returns whether it has all words of a filter, which is in lower case.
    fn matches(&self, words: &[&str]) -> bool {
        let is_in = |word: &&str| {
            let texts = [&self.chip, &self.name, &self.text, &self.place, &self.id];
            texts.iter().any(|text| text.to_lowercase().contains(*word))
        };
        words.iter().all(is_in)
    }
}

/// The label of the action that answers a question.
pub(super) const ANSWER: &str = "answer";

/// The data of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Page {
    pub(super) list: List,
    pub(super) rows: Vec<Row>,
    /// Whether there are rows that were not read.
    pub(super) has_more: bool,
    /// The number of records in each group of the status.
    pub(super) totals: Vec<(GroupKind, u64)>,
    /// The name of the repository.
    pub(super) repository: String,
    /// The store's time when it was read.
    pub(super) now: Timestamp,
    pub(super) warnings: Vec<String>,
}

/// Details of one record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Detail {
    pub(super) id: String,
    /// Titles with texts of any number of lines. A text without a title belongs to no field.
    pub(super) fields: Vec<(&'static str, String)>,
}

/// New output of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LogPart {
    pub(super) job: String,
    pub(super) text: String,
    /// Why there is no more to come; none while the job runs.
    pub(super) end: Option<String>,
}

/// The log that is followed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Log {
    /// The name of the record whose log it is.
    pub(super) name: String,
    pub(super) job: Option<String>,
    lines: Vec<String>,
    /// Whether the last line has no end yet.
    is_partial: bool,
    pub(super) end: Option<String>,
    /// The number of lines below the screen; 0 follows the end.
    pub(super) below: usize,
    /// Shows only lines with this text.
    pub(super) filter: String,
    /// Whether the user types the filter.
    pub(super) is_filtering: bool,
}

/// What the keys are for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    List,
    /// After `g`.
    Go,
    Filter,
    /// After a colon.
    Command(String),
    /// The actions that were valid when it was opened: new data must not move another one under the cursor.
    Palette {
        actions: Vec<Action>,
        selected: usize,
    },
    Input {
        action: Action,
        text: String,
    },
    Confirm {
        action: Action,
        text: Option<String>,
    },
    /// The details of a row, with the number of lines above the screen.
    Details {
        above: usize,
    },
    Log(Log),
    Help,
}

/// A text about the last action, of one or more lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Notice {
    pub(super) tone: Tone,
    pub(super) text: String,
}

/// Something that happened.
#[derive(Clone, Debug)]
pub(super) enum Message {
    Key(Key),
    Resized(u16, u16),
    Page(Box<Page>),
    /// The store answered that nothing changed.
    Unchanged,
    /// The list could not be read.
    Failed(String),
    Detail(Detail),
    Log(LogPart),
    /// There is no log to follow.
    NoLog(String),
    /// An action ended: what it printed, or why it failed.
    Done(Result<String, String>),
    /// Time passed.
    Tick,
}

/// Something to do outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    Load(List),
    LoadDetail(Record, String),
    Follow(Record, String),
    Unfollow,
    /// Run `way` with these arguments.
    Run(Vec<String>),
    /// Draw the whole screen again.
    Redraw,
    Suspend,
    Quit,
}

/// The state of the screen.
#[derive(Clone, Debug)]
pub(super) struct Model {
    pub(super) list: List,
    /// The lists before this one with their filters, for esc.
    pub(super) trail: Vec<(List, String)>,
    pub(super) mode: Mode,
    pub(super) page: Option<Page>,
    pub(super) filter: String,
    pub(super) selected: usize,
    pub(super) detail: Option<Detail>,
    pub(super) notice: Option<Notice>,
    /// Why the last read failed.
    pub(super) failure: Option<String>,
    pub(super) is_read_only: bool,
    /// Columns and lines of the terminal.
    pub(super) size: (u16, u16),
    /// The time of the screen, when the store last answered, and when the page was read; all in milliseconds.
    clock_ms: u64,
    pub(super) answered_ms: Option<u64>,
    page_ms: u64,
}

impl Model {
    pub(super) fn new(is_read_only: bool, size: (u16, u16)) -> Model {
        Model {
            list: List::Now,
            trail: Vec::new(),
            mode: Mode::List,
            page: None,
            filter: String::new(),
            selected: 0,
            detail: None,
            notice: None,
            failure: None,
            is_read_only,
            size,
            clock_ms: 0,
            answered_ms: None,
            page_ms: 0,
        }
    }

    /// Returns the rows that the filter leaves.
    pub(super) fn rows(&self) -> Vec<&Row> {
        let filter = self.filter.to_lowercase();
        let words: Vec<&str> = filter.split_whitespace().collect();
        let page = self.page.iter().filter(|page| page.list == self.list);
        page.flat_map(|page| &page.rows).filter(|row| row.matches(&words)).collect()
    }

    pub(super) fn row(&self) -> Option<&Row> {
        self.rows().get(self.selected).copied()
    }

    /// Returns the actions that are valid for the selected row.
    pub(super) fn actions(&self) -> Vec<Action> {
        if self.is_read_only { Vec::new() } else { self.row().map(|row| row.actions.clone()).unwrap_or_default() }
    }

    /// Returns the details of the selected row as lines with titles.
    pub(super) fn detail_lines(&self, width: u16) -> Vec<(String, String)> {
        let Some(row) = self.row() else { return Vec::new() };
        match self.detail.as_ref().filter(|detail| detail.id == row.id && !detail.fields.is_empty()) {
            Some(detail) => field_lines(&detail.fields, usize::from(width)),
            None => field_lines(&[("", row.text.clone())], usize::from(width)),
        }
    }

    /// Returns the store's time now.
    pub(super) fn now(&self) -> Option<Timestamp> {
        self.page.as_ref().map(|page| page.now.plus(self.clock_ms.saturating_sub(self.page_ms)))
    }

    /// Returns how long the store has not answered, in milliseconds, if that is too long.
    pub(super) fn stale_ms(&self) -> Option<u64> {
        let age = self.clock_ms.saturating_sub(self.answered_ms?);
        (age > MAX_LIVE_MS || self.failure.is_some()).then_some(age)
    }

    /// Changes the state. `clock_ms` is the time of the screen.
    pub(super) fn update(&mut self, message: Message, clock_ms: u64) -> Vec<Effect> {
        self.clock_ms = clock_ms;
        match message {
            Message::Key(key) => return self.press(key),
            Message::Resized(width, height) => self.size = (width, height),
            Message::Page(page) => return self.show(*page),
            // The list could not be read before, and may be readable now.
            Message::Unchanged if self.failure.is_some() => return vec![Effect::Load(self.list)],
            Message::Unchanged => self.answered_ms = Some(clock_ms),
            Message::Failed(why) => self.failure = Some(why),
            Message::Detail(detail) => {
                if self.row().is_some_and(|row| row.id == detail.id) {
                    self.detail = Some(detail);
                }
            }
            Message::Log(part) => {
                if let Mode::Log(log) = &mut self.mode {
                    log.add(part);
                }
            }
            Message::NoLog(why) => {
                if matches!(self.mode, Mode::Log(_)) {
                    self.mode = Mode::List;
                    self.notify(Tone::Warn, why);
                }
            }
            Message::Done(Ok(said)) => self.notify(Tone::Good, said),
            Message::Done(Err(why)) => self.notify(Tone::Bad, why),
            Message::Tick => {}
        }
        Vec::new()
    }

    fn notify(&mut self, tone: Tone, text: impl Into<String>) {
        self.notice = Some(Notice { tone, text: text.into() });
    }

    /// Shows new data, and keeps the selected record selected.
    fn show(&mut self, page: Page) -> Vec<Effect> {
        if page.list != self.list {
            return Vec::new();
        }
        let before = self.row().map(|row| row.id.clone());
        self.failure = None;
        self.answered_ms = Some(self.clock_ms);
        self.page_ms = self.clock_ms;
        self.page = Some(page);
        if let Some(id) = before {
            match self.rows().iter().position(|row| row.id == id) {
                Some(at) => self.selected = at,
                // Another row has taken its place.
                None if matches!(self.mode, Mode::Details { .. }) => {
                    self.mode = Mode::List;
                    self.notify(Tone::Warn, "that row is gone");
                }
                None => {}
            }
        }
        self.select(self.selected)
    }

    /// Selects a row, or the last one, and asks for its details.
    fn select(&mut self, at: usize) -> Vec<Effect> {
        self.selected = at.min(self.rows().len().saturating_sub(1));
        let Some((record, id)) = self.row().map(|row| (row.record, row.id.clone())) else {
            self.detail = None;
            return Vec::new();
        };
        if self.detail.as_ref().is_some_and(|detail| detail.id != id) {
            self.detail = None;
        }
        vec![Effect::LoadDetail(record, id)]
    }

    fn press(&mut self, key: Key) -> Vec<Effect> {
        match key {
            Key::Ctrl('c') => return vec![Effect::Quit],
            Key::Ctrl('z') => return vec![Effect::Suspend],
            Key::Ctrl('l') => return vec![Effect::Redraw],
            _ => {}
        }
        match self.mode.clone() {
            Mode::List => self.press_in_list(&key),
            Mode::Go => self.press_after_g(&key),
            Mode::Filter => self.press_in_filter(key),
            Mode::Command(text) => self.press_in_command(key, text),
            Mode::Palette { actions, selected } => self.press_in_palette(&key, actions, selected),
            Mode::Input { action, text } => self.press_in_input(key, action, text),
            Mode::Confirm { action, text } => self.press_in_confirm(&key, &action, text.as_deref()),
            Mode::Details { above } => self.press_in_details(&key, above),
            Mode::Log(_) => self.press_in_log(key),
            Mode::Help => {
                self.mode = Mode::List;
                Vec::new()
            }
        }
    }

    /// Handles the keys that do the same for a row in a list and for its details. None for other keys.
    fn press_for_row(&mut self, key: &Key) -> Option<Vec<Effect>> {
        match key {
            Key::Char('q') => return Some(vec![Effect::Quit]),
            Key::Char('l') => return Some(self.follow()),
            Key::Char('a') => self.begin_answer(),
            Key::Char(' ') | Key::Ctrl('k') => self.open_palette(),
            Key::Char(':') => self.mode = Mode::Command(String::new()),
            Key::Char('?') => self.mode = Mode::Help,
            Key::Char('r') => return Some(vec![Effect::Load(self.list)]),
            _ => return None,
        }
        Some(Vec::new())
    }

    fn press_in_list(&mut self, key: &Key) -> Vec<Effect> {
        self.notice = None;
        let half = usize::from(self.size.1 / 2).max(1);
        match key {
            Key::Char('j') | Key::Down => self.select(self.selected + 1),
            Key::Char('k') | Key::Up => self.select(self.selected.saturating_sub(1)),
            Key::PageDown | Key::Ctrl('d' | 'f') => self.select(self.selected + half),
            Key::PageUp | Key::Ctrl('u' | 'b') => self.select(self.selected.saturating_sub(half)),
            Key::Home => self.select(0),
            Key::Char('G') | Key::End => self.select(usize::MAX),
            Key::Enter => self.open_row(),
            Key::Escape | Key::Backspace => self.go_back(),
            Key::Char('g') => {
                self.mode = Mode::Go;
                Vec::new()
            }
            Key::Char('/') => {
                self.mode = Mode::Filter;
                Vec::new()
            }
            key => self.press_for_row(key).unwrap_or_default(),
        }
    }

    /// Opens the list whose letter follows `g`.
    fn press_after_g(&mut self, key: &Key) -> Vec<Effect> {
        self.mode = Mode::List;
        let Key::Char(letter) = key else { return Vec::new() };
        match List::ALL.into_iter().find(|list| list.key() == *letter) {
            Some(list) => self.go(list, String::new()),
            None if *letter == 'g' => self.select(0),
            None => Vec::new(),
        }
    }

    fn go_back(&mut self) -> Vec<Effect> {
        if !self.filter.is_empty() {
            self.filter.clear();
            return self.select(0);
        }
        match self.trail.pop() {
            Some((list, filter)) => self.open(list, filter),
            None => Vec::new(),
        }
    }

    /// Goes to a list, from which esc leads back.
    fn go(&mut self, list: List, filter: String) -> Vec<Effect> {
        if list != self.list {
            self.trail.push((self.list, std::mem::take(&mut self.filter)));
        }
        // No list is twice on the way back.
        if let Some(at) = self.trail.iter().position(|(known, _)| *known == list) {
            self.trail.truncate(at);
        }
        self.open(list, filter)
    }

    fn open(&mut self, list: List, filter: String) -> Vec<Effect> {
        self.list = list;
        self.mode = Mode::List;
        self.filter = filter;
        self.selected = 0;
        self.detail = None;
        vec![Effect::Load(list)]
    }

    /// Opens a row: the log of a job, the details of other records.
    fn open_row(&mut self) -> Vec<Effect> {
        match self.row().map(|row| row.record) {
            Some(Record::Job) => self.follow(),
            Some(_) => {
                self.mode = Mode::Details { above: 0 };
                Vec::new()
            }
            None => Vec::new(),
        }
    }

    fn press_in_details(&mut self, key: &Key, above: usize) -> Vec<Effect> {
        self.notice = None;
        let height = usize::from(self.size.1.saturating_sub(LINES_AROUND)).max(1);
        let most = self.detail_lines(self.size.0).len().saturating_sub(height);
        let above = match key {
            Key::Escape | Key::Backspace | Key::Enter => {
                self.mode = Mode::List;
                return Vec::new();
            }
            Key::Char('j') | Key::Down => above + 1,
            Key::Char('k') | Key::Up => above.min(most).saturating_sub(1),
            Key::PageDown | Key::Ctrl('d' | 'f') => above + height,
            Key::PageUp | Key::Ctrl('u' | 'b') => above.min(most).saturating_sub(height),
            Key::Char('g') | Key::Home => 0,
            Key::Char('G') | Key::End => usize::MAX,
            key => return self.press_for_row(key).unwrap_or_default(),
        };
        self.mode = Mode::Details { above: above.min(most) };
        Vec::new()
    }

    fn open_palette(&mut self) {
        let actions = self.actions();
        if actions.is_empty() {
            let why = if self.is_read_only { "this screen only reads" } else { "nothing can be done with this row" };
            self.notify(Tone::Warn, why);
        } else {
            self.mode = Mode::Palette { actions, selected: 0 };
        }
    }

    fn begin_answer(&mut self) {
        match self.actions().into_iter().find(|action| action.label == ANSWER) {
            Some(action) => self.mode = Mode::Input { action, text: String::new() },
            None if self.is_read_only => self.notify(Tone::Warn, "this screen only reads"),
            None => self.notify(Tone::Warn, "this row asks nothing"),
        }
    }

    /// Begins an action: asks for its text and for a confirmation, if it needs them.
    fn begin(&mut self, action: Action, text: Option<String>) -> Vec<Effect> {
        match (action.input, &text) {
            (Some(_), None) => self.mode = Mode::Input { action, text: String::new() },
            _ if action.confirm.is_some() => self.mode = Mode::Confirm { action, text },
            _ => return self.run(&action, text.as_deref()),
        }
        Vec::new()
    }

    fn run(&mut self, action: &Action, text: Option<&str>) -> Vec<Effect> {
        let command = action.with(text);
        self.mode = Mode::List;
        self.notify(Tone::Dim, format!("{} …", shown(&command)));
        vec![Effect::Run(command)]
    }

    fn press_in_filter(&mut self, key: Key) -> Vec<Effect> {
        match key {
            Key::Enter => {
                self.mode = Mode::List;
                return Vec::new();
            }
            Key::Escape => {
                self.mode = Mode::List;
                self.filter.clear();
            }
            Key::Backspace if self.filter.is_empty() => self.mode = Mode::List,
            Key::Up => return self.select(self.selected.saturating_sub(1)),
            Key::Down => return self.select(self.selected + 1),
            key => edit(&mut self.filter, key),
        }
        self.select(0)
    }

    /// Returns the words that can follow a colon: lists, actions of the selected row, and the end.
    fn command_words(&self) -> Vec<String> {
        let lists = List::ALL.iter().map(|list| list.name().to_owned());
        let actions = self.actions().into_iter().map(|action| action.label.to_owned());
        lists.chain(actions).chain(["quit".to_owned()]).collect()
    }

    /// Returns the words that complete the text after a colon.
    pub(super) fn completions(&self, text: &str) -> Vec<String> {
        let typed = text.trim_start().to_lowercase();
        self.command_words().into_iter().filter(|word| word.starts_with(&typed)).collect()
    }

    fn press_in_command(&mut self, key: Key, mut text: String) -> Vec<Effect> {
        match key {
            Key::Enter => return self.run_command(text.trim()),
            Key::Escape => self.mode = Mode::List,
            Key::Backspace if text.is_empty() => self.mode = Mode::List,
            Key::Tab => {
                let completed = self.completions(&text).into_iter().next().map(|word| format!("{word} "));
                self.mode = Mode::Command(completed.unwrap_or(text));
            }
            key => {
                edit(&mut text, key);
                self.mode = Mode::Command(text);
            }
        }
        Vec::new()
    }

    /// Runs the text after a colon: a list with the words of a filter, or an action with its text.
    fn run_command(&mut self, text: &str) -> Vec<Effect> {
        self.mode = Mode::List;
        let (first, rest) = text.split_once(' ').unwrap_or((text, ""));
        let (word, rest) = (first.to_lowercase(), rest.trim());
        if text.is_empty() {
            return Vec::new();
        }
        if QUIT_WORDS.contains(&word.as_str()) {
            return vec![Effect::Quit];
        }
        if let Some(list) = List::ALL.into_iter().find(|list| list.words().contains(&word.as_str())) {
            return self.go(list, rest.to_owned());
        }
        // The label of an action may have several words.
        let named = |action: &Action| {
            let rest = text.get(..action.label.len()).filter(|label| label.eq_ignore_ascii_case(action.label));
            rest.and_then(|_| text.get(action.label.len()..)).filter(|rest| rest.is_empty() || rest.starts_with(' '))
        };
        let found = self.actions().into_iter().find_map(|action| named(&action).map(|rest| (rest.trim(), action)));
        if let Some((rest, action)) = found {
            let typed = Some(rest.to_owned()).filter(|rest| !rest.is_empty() && action.input.is_some());
            return self.begin(action, typed);
        }
        // The beginning of a word is enough, if only one begins so.
        match self.completions(&word).as_slice() {
            [one] if *one != word => {
                let whole = format!("{one} {rest}");
                self.run_command(whole.trim_end())
            }
            _ => {
                let known = self.command_words().join(", ");
                self.notify(Tone::Warn, format!("no list or action {first:?}; known: {known}"));
                Vec::new()
            }
        }
    }

    fn press_in_palette(&mut self, key: &Key, actions: Vec<Action>, selected: usize) -> Vec<Effect> {
        let last = actions.len().saturating_sub(1);
        match key {
            Key::Char('j') | Key::Down | Key::Tab => {
                self.mode = Mode::Palette { actions, selected: (selected + 1).min(last) };
            }
            Key::Char('k') | Key::Up => self.mode = Mode::Palette { actions, selected: selected.saturating_sub(1) },
            Key::Enter => match actions.into_iter().nth(selected) {
                Some(action) => return self.begin(action, None),
                None => self.mode = Mode::List,
            },
            Key::Escape | Key::Backspace | Key::Char(' ' | 'q') => self.mode = Mode::List,
            _ => {}
        }
        Vec::new()
    }

    fn press_in_input(&mut self, key: Key, action: Action, mut text: String) -> Vec<Effect> {
        match key {
            Key::Enter if text.trim().is_empty() => {}
            Key::Enter => return self.begin(action, Some(text.trim().to_owned())),
            Key::Escape => self.mode = Mode::List,
            key => {
                edit(&mut text, key);
                self.mode = Mode::Input { action, text };
            }
        }
        Vec::new()
    }

    /// Only `y` confirms: Enter, which may have been pressed too often, does not.
    fn press_in_confirm(&mut self, key: &Key, action: &Action, text: Option<&str>) -> Vec<Effect> {
        if matches!(key, Key::Char('y' | 'Y')) {
            return self.run(action, text);
        }
        self.mode = Mode::List;
        self.notify(Tone::Dim, format!("{}: not done", action.label));
        Vec::new()
    }

    /// Follows the log of the selected row's job.
    fn follow(&mut self) -> Vec<Effect> {
        let Some(row) = self.row() else { return Vec::new() };
        let (record, id, name) = (row.record, row.id.clone(), row.name.clone());
        if !record.has_log() {
            self.notify(Tone::Warn, "only tasks, jobs and workspaces have a log");
            return Vec::new();
        }
        self.mode = Mode::Log(Log { name, ..Log::default() });
        vec![Effect::Follow(record, id)]
    }

    fn press_in_log(&mut self, key: Key) -> Vec<Effect> {
        let height = usize::from(self.size.1.saturating_sub(LINES_AROUND)).max(1);
        let Mode::Log(log) = &mut self.mode else { return Vec::new() };
        if log.is_filtering {
            match key {
                Key::Enter => log.is_filtering = false,
                Key::Escape => {
                    log.is_filtering = false;
                    log.filter.clear();
                }
                Key::Backspace if log.filter.is_empty() => log.is_filtering = false,
                key => edit(&mut log.filter, key),
            }
            log.below = 0;
            return Vec::new();
        }
        let most = log.lines().len().saturating_sub(1);
        match key {
            Key::Char('q') => return vec![Effect::Quit],
            Key::Escape | Key::Backspace if !log.filter.is_empty() => {
                log.filter.clear();
                log.below = 0;
            }
            Key::Escape | Key::Backspace => {
                self.mode = Mode::List;
                return vec![Effect::Unfollow];
            }
            Key::Char('/') => log.is_filtering = true,
            Key::Char('j') | Key::Down => log.below = log.below.saturating_sub(1),
            Key::Char('k') | Key::Up => log.below = (log.below + 1).min(most),
            Key::PageDown | Key::Ctrl('d' | 'f') | Key::Char(' ') => log.below = log.below.saturating_sub(height),
            Key::PageUp | Key::Ctrl('u' | 'b') => log.below = (log.below + height).min(most),
            Key::Char('g') | Key::Home => log.below = most,
            Key::Char('G') | Key::End => log.below = 0,
            Key::Char('?') => {
                self.mode = Mode::Help;
                return vec![Effect::Unfollow];
            }
            _ => {}
        }
        Vec::new()
    }
}

impl Log {
    /// Returns the lines that the filter leaves.
    pub(super) fn lines(&self) -> Vec<&str> {
        let filter = self.filter.to_lowercase();
        let is_shown = |line: &&str| filter.is_empty() || line.to_lowercase().contains(&filter);
        self.lines.iter().map(String::as_str).filter(is_shown).collect()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    fn add(&mut self, part: LogPart) {
        if self.job.as_ref() != Some(&part.job) {
            self.lines.clear();
            self.is_partial = false;
            self.below = 0;
            self.job = Some(part.job);
        }
        let before = self.lines().len();
        for piece in part.text.split_inclusive('\n') {
            let line = piece.trim_end_matches('\n');
            match self.lines.last_mut() {
                Some(last) if self.is_partial => last.push_str(line),
                _ => self.lines.push(line.to_owned()),
            }
            self.is_partial = !piece.ends_with('\n');
        }
        // A reader who scrolled up stays where they are.
        if self.below > 0 {
            self.below += self.lines().len().saturating_sub(before);
        }
        let excess = self.lines.len().saturating_sub(MAX_LOG_LINES);
        self.lines.drain(..excess);
        self.end = part.end;
    }

    /// Returns the lines of a screen of this size.
    pub(super) fn screen(&self, width: u16, height: u16) -> Vec<String> {
        let (width, height) = (usize::from(width), usize::from(height));
        let lines = self.lines();
        let end = lines.len().saturating_sub(self.below);
        let wrap = |line: &&str| wrapped(&plain(line), width);
        let mut shown: Vec<Vec<String>> = Vec::new();
        let mut count = 0;
        for line in lines[..end].iter().rev() {
            if count >= height {
                break;
            }
            let parts = wrap(line);
            count += parts.len();
            shown.push(parts);
        }
        shown.reverse();
        let mut screen: Vec<String> = shown.into_iter().flatten().collect();
        screen.drain(..screen.len().saturating_sub(height));
        // At the beginning of the log, the screen is filled from above.
        for line in &lines[end..] {
            if screen.len() >= height {
                break;
            }
            screen.extend(wrap(line));
        }
        screen.truncate(height);
        screen
    }
}

/// Changes a text that the user types.
fn edit(text: &mut String, key: Key) {
    let added = match key {
        Key::Char(char) => char.to_string(),
        // A pasted text becomes one line: Enter would send its first line.
        Key::Paste(pasted) => pasted.replace(['\r', '\n'], " "),
        Key::Backspace => {
            text.pop();
            return;
        }
        Key::Ctrl('u') => {
            text.clear();
            return;
        }
        Key::Ctrl('w') => {
            let kept = text.trim_end().rfind(' ').map_or(0, |at| at + 1);
            text.truncate(kept);
            return;
        }
        _ => return,
    };
    let room = MAX_INPUT_CHARS.saturating_sub(text.chars().count());
    text.extend(added.chars().filter(|char| !char.is_control()).take(room));
}
