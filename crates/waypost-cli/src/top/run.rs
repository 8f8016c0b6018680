//! Connects the model with the terminal and the store.
//!
//! The main thread reads keys and draws. One thread reads the store and runs actions, so that a slow store never blocks the
//! keys; another one waits for events.

use std::io::{self, IsTerminal as _, Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use ratatui_core::terminal::Terminal;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use waypost::place::{Location, Place};
use waypost::session::Session;
use waypost::signals::{RedrawSignal, ShutdownSignal};
use waypost_core::{Error, Result};
use waypost_workspace::Step;

use super::keys::Decoder;
use super::load::{Loader, Wanted};
use super::model::{Effect, List, Message, Model, Record};
use super::terminal::{Ansi, RawTerminal, size};
use super::view::render;

/// Longest time between two frames: ages on the screen change without any event.
const TICK: Duration = Duration::from_secs(1);
/// How long the bytes of one key may take to arrive. A single escape is a key after that.
const KEY_TIMEOUT: Duration = Duration::from_millis(50);
/// Longest wait for an event. The store has answered when it ends, so the data on the screen is current.
const WATCH_TIMEOUT: Duration = Duration::from_secs(3);
/// Pause after a failed wait.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);
/// Longest time between two reads of a list: leases become silent without any event.
const READ_INTERVAL: Duration = Duration::from_secs(15);
/// The same for issues, which are in files: their changes are no events of the store.
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
    let shutdown = ShutdownSignal::listen()?;
    let redraw = RedrawSignal::listen()?;
    let (mailbox, inbox) = Mailbox::new()?;
    let (requests, received) = channel();
    let mut raw = RawTerminal::enter()?;
    let screen = Screen {
        is_read_only: options.is_read_only,
        has_color: options.has_color,
        shutdown,
        redraw,
        inbox,
        requests: requests.clone(),
    };
    start_watcher(options.place.clone(), requests, mailbox.clone());
    start_reader(options, received, mailbox);
    screen.show(&mut raw)
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

/// Sends messages to the main thread, which polls a socket.
#[derive(Clone)]
struct Mailbox {
    messages: Sender<Message>,
    bell: Arc<UnixStream>,
}

struct Inbox {
    messages: Receiver<Message>,
    bell: UnixStream,
}

impl Mailbox {
    fn new() -> Result<(Mailbox, Inbox)> {
        let cannot = |error| Error::unavailable("cannot create a socket").because(error);
        let (bell, heard) = UnixStream::pair().map_err(cannot)?;
        bell.set_nonblocking(true).and_then(|()| heard.set_nonblocking(true)).map_err(cannot)?;
        let (messages, received) = channel();
        Ok((Mailbox { messages, bell: Arc::new(bell) }, Inbox { messages: received, bell: heard }))
    }

    /// Returns false if the main thread is gone.
    fn send(&self, message: Message) -> bool {
        let is_sent = self.messages.send(message).is_ok();
        // A full socket rings anyway.
        let _ = (&*self.bell).write(b"!");
        is_sent
    }
}

impl Inbox {
    fn take(&self) -> Vec<Message> {
        while (&self.bell).read(&mut [0; 64]).is_ok_and(|count| count > 0) {}
        self.messages.try_iter().collect()
    }
}

struct Screen {
    is_read_only: bool,
    has_color: bool,
    shutdown: ShutdownSignal,
    redraw: RedrawSignal,
    inbox: Inbox,
    requests: Sender<Request>,
}

impl Screen {
    fn show(&self, raw: &mut RawTerminal) -> Result<()> {
        let cannot_draw = |error: io::Error| Error::unavailable("cannot draw on the terminal").because(error);
        let started = Instant::now();
        let clock = || u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX);
        let mut terminal = Terminal::new(Ansi::new(io::stdout())).map_err(cannot_draw)?;
        terminal.clear().map_err(cannot_draw)?;
        let mut model = Model::new(self.is_read_only, size());
        let mut decoder = Decoder::default();
        self.request(Request::Load(List::Now));
        loop {
            terminal
                .draw(|frame| {
                    if let Some(cursor) = render(&model, self.has_color, frame.area(), frame.buffer_mut()) {
                        frame.set_cursor_position(cursor);
                    }
                })
                .map_err(cannot_draw)?;
            let has_input = self.wait(if decoder.is_waiting() { KEY_TIMEOUT } else { TICK });
            if self.shutdown.count() > 0 {
                return Ok(());
            }
            let is_over = decoder.is_waiting() && !has_input;
            if has_input && !read_input(&mut decoder) {
                // The terminal is gone.
                return Ok(());
            }
            let mut messages = self.inbox.take();
            if self.redraw.take() {
                raw.refresh()?;
                let (width, height) = size();
                messages.push(Message::Resized(width, height));
                terminal.clear().map_err(cannot_draw)?;
            }
            messages.extend(std::iter::from_fn(|| decoder.next(is_over)).map(Message::Key));
            messages.push(Message::Tick);
            for message in messages {
                for effect in model.update(message, clock()) {
                    match effect {
                        Effect::Quit => return Ok(()),
                        Effect::Redraw => terminal.clear().map_err(cannot_draw)?,
                        Effect::Suspend => {
                            raw.suspend()?;
                            terminal.clear().map_err(cannot_draw)?;
                        }
                        Effect::Load(list) => self.request(Request::Load(list)),
                        Effect::LoadDetail(record, id) => self.request(Request::Detail(record, id)),
                        Effect::Follow(record, id) => self.request(Request::Follow(record, id)),
                        Effect::Unfollow => self.request(Request::Unfollow),
                        Effect::Run(command) => self.request(Request::Run(command)),
                    }
                }
            }
        }
    }

    /// The thread that reads lives as long as the screen.
    fn request(&self, request: Request) {
        let _ = self.requests.send(request);
    }

    /// Waits for keys, messages or signals. Returns whether there are keys.
    fn wait(&self, timeout: Duration) -> bool {
        let stdin = io::stdin();
        let mut fds = [
            PollFd::new(&stdin, PollFlags::IN),
            PollFd::from_borrowed_fd(self.inbox.bell.as_fd(), PollFlags::IN),
            PollFd::new(&self.shutdown, PollFlags::IN),
            PollFd::new(&self.redraw, PollFlags::IN),
        ];
        poll(&mut fds, Some(&timespec(timeout))).is_ok() && !fds[0].revents().is_empty()
    }
}

fn timespec(duration: Duration) -> Timespec {
    Timespec { tv_sec: i64::try_from(duration.as_secs()).unwrap_or(1), tv_nsec: duration.subsec_nanos().into() }
}

/// Reads the keys that have arrived. Returns false at the end of the input.
fn read_input(decoder: &mut Decoder) -> bool {
    let mut bytes = [0; 4096];
    // Not through the buffer of the standard library: what it holds back, poll does not see.
    match rustix::io::read(io::stdin(), &mut bytes) {
        Ok(0) | Err(rustix::io::Errno::IO) => false,
        Ok(count) => {
            decoder.push(&bytes[..count]);
            true
        }
        Err(_) => true,
    }
}

/// Starts the thread that reads lists, details and logs, and runs actions.
fn start_reader(options: Options, requests: Receiver<Request>, mailbox: Mailbox) {
    let Options { place, wanted, arguments, .. } = options;
    let reader = Reader { place, wanted, arguments, requests, mailbox, loader: None, list: List::Now, detail: None };
    std::thread::spawn(move || reader.run());
}

struct Reader {
    place: Place,
    wanted: Wanted,
    arguments: Vec<String>,
    requests: Receiver<Request>,
    mailbox: Mailbox,
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
                Err(error) => {
                    self.mailbox.send(Message::NoLog(error.full_message()));
                }
            },
            Request::Run(command) => {
                let result = run_way(&self.place.cwd, &self.arguments, &command);
                self.mailbox.send(Message::Done(result.unwrap_or_else(|error| Err(error.full_message()))));
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
            self.mailbox.send(Message::Failed(error.full_message()));
        }
    }

    fn read(&mut self) {
        let (list, mailbox) = (self.list, self.mailbox.clone());
        self.with_loader(|loader| {
            mailbox.send(Message::Page(Box::new(loader.page(list)?)));
            Ok(())
        });
    }

    fn read_detail(&mut self) {
        let Some((record, id)) = self.detail.take() else { return };
        // The record may be gone in the meantime: the list says so with its next read.
        if let Ok(detail) = self.loader().and_then(|loader| loader.detail(record, &id)) {
            self.mailbox.send(Message::Detail(detail));
        }
    }

    fn read_log(&mut self, is_first: bool) {
        let mailbox = self.mailbox.clone();
        self.with_loader(|loader| {
            if let Some(part) = loader.log_part(is_first)? {
                mailbox.send(Message::Log(part));
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
    let result = Step { program: &program, arguments: &arguments, dir, variables: &[] }.run(&mut |_| {})?;
    if result.code == Some(0) {
        return Ok(Ok(result.stdout.lines().next().unwrap_or("done").to_owned()));
    }
    let lines: Vec<&str> = result.stderr.lines().filter(|line| !line.starts_with("store: ")).collect();
    Ok(Err(lines.join("\n")))
}

/// Starts the thread that waits for events.
fn start_watcher(place: Place, requests: Sender<Request>, mailbox: Mailbox) {
    std::thread::spawn(move || {
        let mut last = None;
        let mut loader: Option<Loader> = None;
        loop {
            let is_alive = match watch(&place, &mut loader, &mut last) {
                Ok(true) => requests.send(Request::Changed).is_ok(),
                Ok(false) => mailbox.send(Message::Unchanged),
                Err(_) => {
                    loader = None;
                    let _ = poll(&mut [], Some(&timespec(RETRY_INTERVAL)));
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
