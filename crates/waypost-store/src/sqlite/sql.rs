//! The statements, as SQL, one constant each. Every backend has the same names.

/// Replaces in place: `INSERT OR REPLACE` would delete the row that others refer to.
pub(super) const REPOSITORY_PUT: &str = "
    INSERT INTO repositories (id, name, path, vcs, remote_url, default_branch) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
    ON CONFLICT (id) DO UPDATE SET name = ?2, path = ?3, vcs = ?4, remote_url = ?5, default_branch = ?6";

/// By primary key.
pub(super) const REPOSITORY_GET: &str =
    "SELECT id, name, path, vcs, remote_url, default_branch FROM repositories WHERE id = ?1";

/// A scan: a store knows few repositories.
pub(super) const REPOSITORY_LIST: &str =
    "SELECT id, name, path, vcs, remote_url, default_branch FROM repositories ORDER BY name, id";

/// Replaces in place, as `REPOSITORY_PUT`.
pub(super) const WORKTREE_PUT: &str = "
    INSERT INTO worktrees (id, repository_id, name, path, branch, first_seen, last_seen, removed_at)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
    ON CONFLICT (id) DO UPDATE SET repository_id = ?2, name = ?3, path = ?4, branch = ?5,
        first_seen = ?6, last_seen = ?7, removed_at = ?8";

/// By primary key.
pub(super) const WORKTREE_GET: &str = "
    SELECT id, repository_id, name, path, branch, first_seen, last_seen, removed_at FROM worktrees WHERE id = ?1";

/// By primary key.
pub(super) const WORKTREE_TOUCH: &str = "UPDATE worktrees SET last_seen = ?2 WHERE id = ?1";

/// A scan: a store knows few worktrees.
pub(super) const WORKTREE_LIST: &str = "
    SELECT id, repository_id, name, path, branch, first_seen, last_seen, removed_at FROM worktrees
    ORDER BY first_seen, name, id";

/// The sequence is the row id.
pub(super) const EVENT_APPEND: &str = "
    INSERT INTO events (time, actor, worktree_id, kind, subject, data) VALUES (?1, ?2, ?3, ?4, ?5, ?6)";

/// Backwards along the primary key.
pub(super) const EVENT_LIST: &str = "
    SELECT sequence, time, actor, worktree_id, kind, subject, data FROM events ORDER BY sequence DESC LIMIT ?1";

/// Backwards along `events_by_worktree`.
pub(super) const EVENT_LIST_OF_WORKTREE: &str = "
    SELECT sequence, time, actor, worktree_id, kind, subject, data FROM events
    WHERE worktree_id = ?2 ORDER BY sequence DESC LIMIT ?1";

/// The last row by primary key.
pub(super) const EVENT_LAST: &str = "SELECT sequence, time FROM events ORDER BY sequence DESC LIMIT 1";
