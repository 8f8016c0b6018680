//! Facts about saved answers.

use waypost_core::model::SavedAnswer;
use waypost_core::store::Store;
use waypost_core::time::Timestamp;

use crate::rows::{Dice, World};
use crate::{read, write};

pub(crate) fn answers_are_forgotten_by_their_age(store: &mut dyn Store) {
    let dice = &mut Dice::new(8);
    let world = World::small(dice);
    let mut answer = |key: &str, millis| SavedAnswer {
        key: key.to_owned(),
        created_at: Timestamp::from_millis(millis),
        ..world.answer(dice)
    };
    let (old, new) = (answer("old", 9), answer("new", 10));
    write(store, |tx| {
        world.put(tx);
        tx.answer_put(&old).unwrap();
        tx.answer_put(&new).unwrap();
    });
    write(store, |tx| tx.answer_forget(Timestamp::from_millis(10)).unwrap());
    read(store, |tx| {
        assert_eq!(tx.answer_get("old").unwrap(), None);
        assert_eq!(tx.answer_get("new").unwrap(), Some(new));
    });
}
