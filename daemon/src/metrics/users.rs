//! The names of users.

use std::collections::HashMap;

use nix::unistd::{Uid, User};

/// Names that are kept.
const USERS_MAX: usize = 4_096;

/// The names of users, as the system has them.
#[derive(Debug, Default)]
pub(crate) struct Users(HashMap<u32, String>);

impl Users {
    /// The name of a user, or else the number.
    pub(crate) fn name(&mut self, uid: u32) -> String {
        if self.0.len() >= USERS_MAX && !self.0.contains_key(&uid) {
            self.0.clear();
        }
        let look = || {
            let user = User::from_uid(Uid::from_raw(uid)).ok().flatten();
            user.map_or_else(|| uid.to_string(), |user| user.name)
        };
        self.0.entry(uid).or_insert_with(look).clone()
    }
}
