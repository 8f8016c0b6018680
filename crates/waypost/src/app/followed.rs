//! The place of a server, which follows changes of the configuration as every other process does.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use waypost_core::context::Caller;
use waypost_core::time::Timestamp;
use waypost_core::{Error, Result};
use waypost_fs::{FileIdentity, Stamp};

use crate::app::session::{Session, settings_of};
use crate::machine::place::{Location, Place};

/// The place of a server. Clones of it share one state.
#[derive(Clone)]
pub(super) struct Followed(Arc<Mutex<Known>>);

struct Known {
    place: Arc<Place>,
    /// The default caller.
    own: Arc<Caller>,
    /// Tells the store of this server from another one in its place.
    first_seen: Option<Timestamp>,
    /// The file that was found to be this store last.
    file: Option<FileIdentity>,
    /// The files that the configuration comes from, as they were when it was read.
    stamps: Vec<Option<Stamp>>,
}

impl Followed {
    /// Follows the configuration of a place from now on. `session` has its store open.
    pub(super) fn new(place: Place, session: &mut Session) -> Result<Followed> {
        let (own, first_seen) = (Arc::new(session.caller().clone()), session.first_seen()?);
        let known = Known { stamps: stamps(&place), place: Arc::new(place), own, first_seen, file: None };
        Ok(Followed(Arc::new(Mutex::new(known))))
    }

    /// Returns the place, with the configuration as it is now.
    pub(super) fn place(&self) -> Arc<Place> {
        self.current().0
    }

    /// Returns the default caller, for requests that name no worktree.
    pub(super) fn own(&self) -> Arc<Caller> {
        self.current().1
    }

    fn current(&self) -> (Arc<Place>, Arc<Caller>) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let stamps = stamps(&known.place);
        if stamps != known.stamps {
            known.stamps = stamps;
            match resolved_again(&known.place) {
                Ok(place) => {
                    known.own = Arc::new(settings_of(&place, (*known.own).clone()));
                    known.place = Arc::new(place);
                }
                Err(error) => log::warn!("the former configuration stays in force: {}", error.full_message()),
            }
        }
        (Arc::clone(&known.place), Arc::clone(&known.own))
    }

    /// Returns a session for the next request: the open one, unless the configuration was changed since. Fails if another
    /// store is in the place of the one that this server serves.
    pub(super) fn session(&self, open: Option<Open>) -> Result<Open> {
        let place = self.place();
        // An open session may still read the file that was there before.
        let open = open.filter(|open| self.is_same_file(&open.session));
        let is_fresh = open.is_none();
        let session = match open {
            Some(open) if Arc::ptr_eq(&open.place, &place) => open.session,
            Some(open) => open.session.moved_to((*place).clone())?,
            None => Session::open((*place).clone())?,
        };
        let mut open = Open { place, session };
        self.check_store(&mut open.session, is_fresh)?;
        Ok(open)
    }

    fn is_same_file(&self, session: &Session) -> bool {
        let checked = self.0.lock().unwrap_or_else(PoisonError::into_inner).file;
        let Location::Sqlite(path) = &session.choice.location else { return true };
        FileIdentity::of(path).is_ok_and(|file| Some(file) == checked)
    }

    fn check_store(&self, session: &mut Session, is_fresh: bool) -> Result<()> {
        let location = session.choice.location.clone();
        let file = match &location {
            Location::Sqlite(path) => FileIdentity::of(path).ok(),
            _ => None,
        };
        let (served, checked) = {
            let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            (known.first_seen, known.file)
        };
        // A file that is missing is reported by its use. A server is asked only once for each session.
        let is_known = if file.is_some() { file == checked } else { !is_fresh };
        if served.is_none() || is_known {
            return Ok(());
        }
        if session.first_seen()? != served {
            return Err(Error::unavailable(format!("the store at {location} is not the one that this server serves"))
                .hint("bring the store back, or start the server again to serve the other one"));
        }
        self.0.lock().unwrap_or_else(PoisonError::into_inner).file = file;
        Ok(())
    }
}

/// A session, and the place that it was opened for.
pub(super) struct Open {
    place: Arc<Place>,
    pub(super) session: Session,
}

fn resolved_again(known: &Place) -> Result<Place> {
    let mut place = known.again()?;
    place.variables = known.variables.clone();
    if place.store()?.location != known.store()?.location {
        return Err(Error::refused("it names another store").hint("start the server again to serve that one"));
    }
    Ok(place)
}

/// Returns the stamps of the files that settings come from. One that cannot be read counts as missing.
fn stamps(place: &Place) -> Vec<Option<Stamp>> {
    let in_git = place.checkout.as_ref().map(|checkout| checkout.shared_dir.join("config"));
    let files: [Option<PathBuf>; 4] =
        [place.files.user.clone(), place.files.shared.clone(), place.files.private.clone(), in_git];
    files.iter().map(|file| Stamp::of_path(file.as_deref()?).ok().flatten()).collect()
}
