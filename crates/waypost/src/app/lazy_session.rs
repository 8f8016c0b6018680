//! The session of one command or request.

use std::cell::{RefCell, RefMut};

use waypost_core::Result;

use crate::app::session::{Session, Warnings};
use crate::machine::place::{Location, Place};

/// A session that the first use opens, and that every later use shares. So a command opens its store at most once, and only
/// if it needs it.
pub struct LazySession {
    place: Place,
    session: RefCell<Option<Box<Session>>>,
    warnings: Warnings,
}

impl LazySession {
    /// A session that is not open yet. Its warnings are added to `warnings`.
    pub fn new(place: Place, warnings: Warnings) -> LazySession {
        LazySession { place, session: RefCell::new(None), warnings }
    }

    /// Returns the place of the caller.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// Returns where the warnings are collected.
    pub fn warnings(&self) -> &Warnings {
        &self.warnings
    }

    /// Returns the session. Creates a store that does not exist yet, as [`Session::open`] does.
    pub fn open(&self) -> Result<RefMut<'_, Session>> {
        let slot = self.session.borrow_mut();
        let opened = RefMut::filter_map(slot, Option::as_deref_mut);
        opened.or_else(|slot| {
            let mut session = Session::open(self.place.clone())?;
            session.collect_warnings_in(self.warnings.clone());
            self.warnings.add(session.place.warnings.iter().skip(self.place.warnings.len()).cloned());
            Ok(RefMut::map(slot, |slot| &mut **slot.insert(Box::new(session))))
        })
    }

    /// Returns the session if there is a store. Creates none.
    pub fn open_existing(&self) -> Result<Option<RefMut<'_, Session>>> {
        if self.session.borrow().is_none() && !has_store(&self.place) {
            return Ok(None);
        }
        self.open().map(|session| Some(session).filter(|session| !session.is_absent()))
    }
}

impl From<Session> for LazySession {
    fn from(session: Session) -> LazySession {
        let (place, warnings) = (session.place.clone(), session.warnings().clone());
        LazySession { place, session: RefCell::new(Some(Box::new(session))), warnings }
    }
}

/// Returns whether the place has a store that exists.
fn has_store(place: &Place) -> bool {
    match place.store().map(|choice| choice.location) {
        Ok(Location::Sqlite(path)) => path.exists(),
        Ok(Location::UnnamedSqlite) | Err(_) => false,
        Ok(Location::Postgres(_) | Location::Server(_)) => true,
    }
}
