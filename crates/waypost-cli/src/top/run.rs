//! Connects the model with the terminal and the store.
//!
//! The main thread reads keys and draws. One thread reads the store and runs actions, so that a slow store never blocks the
//! keys; another one waits for events.

use std::io::{self, IsTerminal as _};
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use ratatui::crossterm::event;
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use waypost::app::session::Session;
use waypost::machine::place::{Location, Place};
use waypost_core::{Error, Result};
use waypost_workspace::Step;

use super::load::{Loader, Wanted};
use super::model::{Effect, List, Message, Model, Record};
use super::terminal::{RawTerminal, keys, size};

/// Longest time between two frames: ages on the screen change without any event.
const TICK: Duration = Duration::from_secs(1);
/// Longest wait for an event. The store has answered when it ends, so the data on the screen is current.
const WATCH_TIMEOUT: Duration = Duration::from_secs(3);
/// Pause after a failed wait.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// Longest time between two reads of a list: leases become silent without any event.
const READ_INTERVAL: Duration = Duration::from_secs(15);
/// The same for issues, which are in files: their changes are not events of the store.
const ISSUES_INTERVAL: Duration = Duration::from_secs(3);
/// Time between two reads of a log that is followed.
const LOG_INTERVAL: Duration = Duration::from_millis(250);
/// Shortest time between two reads that events cause.
const MIN_READ_INTERVAL: Duration = Duration::from_millis(200);
/// The pause after a read, as a multiple of its duration: a large store that changes often must not keep a processor busy.
const PAUSE_FACTOR: u32 = 4;

/// The options of the screen.
pub(crate) struct Options {
    pub(crate) place: Place,
    pub(crate) wanted: Wanted,
    pub(crate) is_read_only: bool,
    pub(crate) has_color: bool,
    /// The global options, for the commands of actions.
    pub(crate) arguments: Vec<String>,
}

/// Shows the screen until the user quits.
pub(crate) fn run(options: Options) -> Result<()> {
    if io::stderr().is_terminal() {
        // Log lines would be drawn over the screen.
        log::set_max_level(log::LevelFilter::Off);
    }
    let (events, inbox) = channel();
    let (requests, received) = channel();
    start_signals(events.clone())?;
    let mut raw = RawTerminal::enter(options.has_color)?;
    let is_read_only = options.is_read_only;
    start_keys(events.clone());
    start_watcher(options.place.clone(), requests.clone(), events.clone());
    start_reader(options, received, events);
    show(&mut raw, is_read_only, &inbox, &requests)
}

/// A request to the thread that reads.
enum Request {
    Load(List),
    Detail(Record, String),
    Follow(Record, String),
    Unfollow,
    Run(Vec<String>),
    /// An event happened.
    Changed,
}

/// Something for the main thread.
enum Event {
    /// For the model.
    Message(Message),
    /// The terminal has another size.
    Resized,
    /// This process continues after it was stopped.
    Continued,
    /// A signal asks this process to stop, or the terminal is gone.
    Stop,
}

/// Starts the thread that reads the keys.
fn start_keys(events: Sender<Event>) {
    std::thread::spawn(move || {
        while let Ok(event) = event::read() {
            if let event::Event::Resize(..) = event {
                let _ = events.send(Event::Resized);
            }
            for key in keys(event) {
                send(&events, Message::Key(key));
            }
        }
        let _ = events.send(Event::Stop);
    });
}

/// Starts the thread that waits for signals.
fn start_signals(events: Sender<Event>) -> Result<()> {
    let signals = Signals::new([SIGTERM, SIGINT, SIGHUP, SIGCONT]);
    let mut signals = signals.map_err(|error| Error::unavailable("cannot listen for signals").because(error))?;
    std::thread::spawn(move || {
        for signal in signals.forever() {
            let _ = events.send(if signal == SIGCONT { Event::Continued } else { Event::Stop });
        }
    });
    Ok(())
}

/// Sends a message to the main thread. The program ends when that is gone.
fn send(events: &Sender<Event>, message: Message) {
    let _ = events.send(Event::Message(message));
}

/// Draws, and waits for events, until the user quits.
fn show(raw: &mut RawTerminal, is_read_only: bool, inbox: &Receiver<Event>, requests: &Sender<Request>) -> Result<()> {
    let started = Instant::now();
    let clock = || u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
    let mut model = Model::new(is_read_only, size());
    // The thread that reads lives as long as the screen.
    let request = |request| drop(requests.send(request));
    request(Request::Load(List::Now));
    loop {
        raw.draw(&model)?;
        let first = inbox.recv_timeout(TICK).into_iter();
        for event in first.chain(inbox.try_iter()).chain([Event::Message(Message::Tick)]) {
            let message = match event {
                Event::Message(message) => message,
                Event::Stop => return Ok(()),
                Event::Resized | Event::Continued => {
                    if let Event::Continued = event {
                        raw.refresh()?;
                    } else {
                        raw.clear()?;
                    }
                    let (width, height) = size();
                    Message::Resized(width, height)
                }
            };
            for effect in model.update(message, clock()) {
                match effect {
                    Effect::Quit => return Ok(()),
                    Effect::Redraw => raw.clear()?,
                    Effect::Suspend => raw.suspend()?,
                    Effect::Load(list) => request(Request::Load(list)),
                    Effect::LoadDetail(record, id) => request(Request::Detail(record, id)),
                    Effect::Follow(record, id) => request(Request::Follow(record, id)),
                    Effect::Unfollow => request(Request::Unfollow),
                    Effect::Run(command) => request(Request::Run(command)),
                }
            }
        }
    }
}

/// Starts the thread that reads lists, details and logs, and runs actions.
fn start_reader(options: Options, requests: Receiver<Request>, events: Sender<Event>) {
    let Options { place, wanted, arguments, .. } = options;
    let reader = Reader { place, wanted, arguments, requests, events, loader: None, list: List::Now, detail: None };
    std::thread::spawn(move || reader.run());
}

struct Reader {
    place: Place,
    wanted: Wanted,
    arguments: Vec<String>,
    requests: Receiver<Request>,
    events: Sender<Event>,
    /// Opened again after a failure.
    loader: Option<Loader>,
    list: List,
    /// The record whose details are wanted next.
    detail: Option<(Record, String)>,
}

impl Reader {
    fn run(mut self) {
        let mut is_due = false;
        let mut read_at = Instant::now();
        let mut pause = MIN_READ_INTERVAL;
        loop {
            let interval = if self.list == List::Issues { ISSUES_INTERVAL } else { READ_INTERVAL };
            let is_following = self.loader.as_ref().is_some_and(Loader::is_following);
            let next_read = if is_due { pause } else { interval }.saturating_sub(read_at.elapsed());
            let timeout = if is_following { next_read.min(LOG_INTERVAL) } else { next_read };
            match self.requests.recv_timeout(timeout) {
                Ok(first) => {
                    let all: Vec<Request> = std::iter::once(first).chain(self.requests.try_iter()).collect();
                    for request in all {
                        is_due |= self.take(request);
                    }
                    self.read_detail();
                }
                Err(RecvTimeoutError::Timeout) => is_due |= read_at.elapsed() >= interval,
                Err(RecvTimeoutError::Disconnected) => return,
            }
            if is_due && read_at.elapsed() >= pause {
                let begin = Instant::now();
                self.read();
                pause = MIN_READ_INTERVAL.max(begin.elapsed() * PAUSE_FACTOR);
                (is_due, read_at) = (false, Instant::now());
            }
            if self.loader.as_ref().is_some_and(Loader::is_following) {
                self.read_log(false);
            }
        }
    }

    /// Carries out a request. Returns whether the list has to be read soon.
    fn take(&mut self, request: Request) -> bool {
        match request {
            Request::Changed => return true,
            Request::Load(list) => {
                self.list = list;
                self.detail = None;
                self.read();
            }
            // Only the last of several requests counts: the user moved on.
            Request::Detail(record, id) => self.detail = Some((record, id)),
            Request::Unfollow => {
                if let Some(loader) = &mut self.loader {
                    loader.unfollow();
                }
            }
            Request::Follow(record, id) => match self.loader().and_then(|loader| loader.follow(record, &id)) {
                Ok(()) => self.read_log(true),
                Err(error) => send(&self.events, Message::NoLog(error.full_message())),
            },
            Request::Run(command) => {
                let result = run_way(&self.place.cwd, &self.arguments, &command);
                send(&self.events, Message::Done(result.unwrap_or_else(|error| Err(error.full_message()))));
                return true;
            }
        }
        false
    }

    fn loader(&mut self) -> Result<&mut Loader> {
        if self.loader.is_none() {
            self.loader = Some(open(&self.place, self.wanted.clone())?);
        }
        self.loader.as_mut().ok_or_else(|| Error::internal("the store is not open"))
    }

    /// Does something with the open store. A failure closes it, so that the next attempt opens it again.
    fn with_loader(&mut self, with: impl FnOnce(&mut Loader) -> Result<()>) {
        if let Err(error) = self.loader().and_then(with) {
            self.loader = None;
            send(&self.events, Message::Failed(error.full_message()));
        }
    }

    fn read(&mut self) {
        let (list, events) = (self.list, self.events.clone());
        self.with_loader(|loader| {
            send(&events, Message::Page(Box::new(loader.page(list)?)));
            Ok(())
        });
    }

    fn read_detail(&mut self) {
        let Some((record, id)) = self.detail.take() else { return };
        // The record may be gone in the meantime: the list says so with its next read.
        if let Ok(detail) = self.loader().and_then(|loader| loader.detail(record, &id)) {
            send(&self.events, Message::Detail(detail));
        }
    }

    fn read_log(&mut self, is_first: bool) {
        let events = self.events.clone();
        self.with_loader(|loader| {
            if let Some(part) = loader.log_part(is_first)? {
                send(&events, Message::Log(part));
            }
            Ok(())
        });
    }
}

/// Opens the store. Nothing is created: a store that is gone must not look like an empty one.
fn open(place: &Place, wanted: Wanted) -> Result<Loader> {
    if let Location::Sqlite(path) = place.store()?.location
        && !path.exists()
    {
        return Err(Error::not_found(format!("there is no store {}", path.display())));
    }
    let session = Session::open_existing(place.clone())?;
    session.require_present()?;
    Ok(Loader::new(session, wanted))
}

/// Runs this program with the command of an action, so that actions do and say exactly the same as commands. Returns the
/// first line that it printed, or its error with the hints.
fn run_way(dir: &Path, global: &[String], command: &[String]) -> Result<Result<String, String>> {
    let program = waypost_workspace::surroundings::own_program()
        .map_err(|error| Error::unavailable("cannot find this program").because(error))?;
    let arguments: Vec<&str> = global.iter().chain(command).map(String::as_str).collect();
    let result = Step { program: &program, arguments: &arguments, dir, variables: &[] }.run()?;
    if result.code == Some(0) {
        return Ok(Ok(result.stdout.lines().next().unwrap_or("done").to_owned()));
    }
    let lines: Vec<&str> = result.stderr.lines().filter(|line| !line.starts_with("store: ")).collect();
    Ok(Err(lines.join("\n")))
}

/// Starts the thread that waits for events.
fn start_watcher(place: Place, requests: Sender<Request>, events: Sender<Event>) {
    std::thread::spawn(move || {
        let mut last = None;
        let mut loader: Option<Loader> = None;
        loop {
            let is_alive = match watch(&place, &mut loader, &mut last) {
                Ok(true) => requests.send(Request::Changed).is_ok(),
                Ok(false) => events.send(Event::Message(Message::Unchanged)).is_ok(),
                Err(_) => {
                    loader = None;
                    std::thread::park_timeout(RETRY_INTERVAL);
                    // The thread that reads says why.
                    requests.send(Request::Changed).is_ok()
                }
            };
            if !is_alive {
                return;
            }
        }
    });
}

/// Waits for an event. Returns whether there was one.
fn watch(place: &Place, loader: &mut Option<Loader>, last: &mut Option<u64>) -> Result<bool> {
    let watcher = match loader {
        Some(loader) => loader,
        None => loader.insert(open(place, Wanted::default())?),
    };
    let before = match *last {
        Some(last) => last,
        None => watcher.last()?,
    };
    watcher.wait(before, WATCH_TIMEOUT)?;
    let now = watcher.last()?;
    *last = Some(now);
    Ok(now != before)
}
