//! Facts about jobs and workspaces.

use waypost_core::model::{Job, Workspace};
use waypost_core::store::Store;

use crate::rows::{Dice, World};
use crate::{read, write};

pub(crate) fn p6_every_field_of_jobs_and_workspaces_is_read_back_also_after_all_are_replaced(store: &mut dyn Store) {
    let dice = &mut Dice::new(6);
    let mut world = World::small(dice);
    write(store, |tx| world.put(tx));
    for _ in 0..40 {
        let job = world.job(dice);
        let other = Job { id: job.id.clone(), ..world.job(dice) };
        for row in [&job, &other] {
            write(store, |tx| tx.job_put(row).unwrap());
            assert_eq!(read(store, |tx| tx.job_get(&row.id).unwrap()).as_ref(), Some(row));
        }
        world.jobs.push(other);
        let workspace = world.workspace(dice);
        let other = Workspace { id: workspace.id.clone(), ..world.workspace(dice) };
        for row in [&workspace, &other] {
            write(store, |tx| tx.workspace_put(row).unwrap());
            assert_eq!(read(store, |tx| tx.workspace_get(&row.id).unwrap()).as_ref(), Some(row));
        }
    }
}
