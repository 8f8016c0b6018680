-- The worktrees in which a claim without a name takes the tasks of a workflow. Until now these were all of them.
ALTER TABLE workflows ADD COLUMN reach TEXT NOT NULL DEFAULT 'repository' CHECK (reach IN ('worktree', 'repository'));

-- A claim takes the tasks of its own worktree first.
CREATE INDEX tasks_pending_of_worktree ON tasks (worktree_id, priority, queued_at, sequence, id) WHERE status = 'pending';
