//! Repositories and worktrees.

use waypost_core::model::{Repository, Worktree};

table! {
    struct Repository as repository;
    /// Replaces in place.
    pub(crate) const REPOSITORY_PUT: upsert into repositories;
    key {
        id: parsed,
    }
    columns {
        name: text,
        path: path,
        vcs: parsed,
        remote_url: maybe_text,
        default_branch: maybe_text,
    }
}

table! {
    struct Worktree as worktree;
    /// Replaces in place.
    pub(crate) const WORKTREE_PUT: upsert into worktrees;
    key {
        id: parsed,
    }
    columns {
        repository_id: parsed,
        name: text,
        path: path,
        branch: maybe_text,
        first_seen: timestamp,
        last_seen: timestamp,
        removed_at: maybe_timestamp,
    }
}

/// By primary key.
pub(crate) const REPOSITORY_GET: &str = select!(repository, "repositories WHERE id = ?1");
/// A scan: a store knows few repositories.
pub(crate) const REPOSITORY_LIST: &str = select!(repository, "repositories ORDER BY name, id");
/// By primary key. A scan of the tables that may refer to it: removal is rare.
pub(crate) const REPOSITORY_REMOVE: &str = "DELETE FROM repositories WHERE id = ?1";

/// By primary key.
pub(crate) const WORKTREE_GET: &str = select!(worktree, "worktrees WHERE id = ?1");
/// By primary key.
pub(crate) const WORKTREE_TOUCH: &str = "UPDATE worktrees SET last_seen = ?2 WHERE id = ?1";
/// A scan: a store knows few worktrees.
pub(crate) const WORKTREE_LIST: &str = select!(worktree, "worktrees ORDER BY first_seen, name, id");
