-- What the jobs of a workflow or a task start from.
ALTER TABLE workflows ADD COLUMN base TEXT;
ALTER TABLE tasks ADD COLUMN base TEXT;

-- What the workspace of a job started from, in words, and the commit that the job left for later tasks.
ALTER TABLE jobs ADD COLUMN started_from TEXT;
ALTER TABLE jobs ADD COLUMN result TEXT;
