//! Facts about templates.

use waypost_core::model::Template;
use waypost_core::store::Store;

use crate::rows::{Dice, World};
use crate::{read, write};

pub(crate) fn the_latest_version_of_a_template_is_listed(store: &mut dyn Store) {
    let dice = &mut Dice::new(7);
    let world = World::small(dice);
    let mut template = |name: &str, version| Template { name: name.to_owned(), version, ..world.template(dice) };
    let templates = [template("b", 1), template("b", 10), template("b", 9), template("B", 2)];
    write(store, |tx| {
        world.put(tx);
        for template in &templates {
            tx.template_put(template).unwrap();
        }
    });
    read(store, |tx| {
        assert_eq!(tx.template_list(None).unwrap(), [templates[3].clone(), templates[1].clone()]);
        assert_eq!(tx.template_list(Some("b")).unwrap(), [templates[1].clone()]);
        assert_eq!(tx.template_list(Some("c")).unwrap(), []);
    });
}
