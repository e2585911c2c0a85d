//! All policies in one type, chosen by name.

use core::any::TypeId;
use core::fmt;
use core::str::FromStr;

use xsched_core::policy::Policy;

use crate::awf::Awf;
use crate::cfs::Cfs;
use crate::chpf::Chpf;
use crate::edf::{Edf, Kedf};
use crate::engine::forward;
use crate::fcfs::Fcfs;
use crate::hhpf::Hhpf;
use crate::hpf::Hpf;
use crate::lax::Lax;
use crate::mlfq::Mlfq;
use crate::pup::Pup;
use crate::spup::Spup;
use crate::strict::{StrictEdf, StrictKedf, StrictUp, StrictWfq};
use crate::up::Up;
use crate::wfq::Wfq;

/// Declares [`Any`] with a variant for each policy: what it is, its short name and its long one.
macro_rules! any {
    ($($(#[$doc:meta])* $variant:ident($policy:ty) = $short:literal, $long:literal;)*) => {
        /// Any of the policies of this crate, chosen by name.
        ///
        /// ```
        /// use xsched_core::policy::Policy;
        /// use xsched_policies::Any;
        ///
        /// for name in Any::NAMES {
        ///     let policy: Any = name.parse()?;
        ///     assert_eq!(policy.name(), *name);
        /// }
        /// # Ok::<(), xsched_policies::UnknownPolicy>(())
        /// ```
        #[derive(Clone, Debug)]
        #[non_exhaustive]
        pub enum Any {
            $($(#[$doc])* $variant($policy),)*
        }

        impl Any {
            /// The short names of all policies: the one list that messages and interfaces use.
            ///
            /// Parsing takes the long names as well, and ignores case, underscores and dashes.
            pub const NAMES: &[&str] = &[$($short),*];

            /// Returns whether `P` is a policy of this crate, or this type. Drivers may call such a
            /// policy on threads that submit and wait: none blocks, and each is over in
            /// microseconds.
            ///
            /// ```
            /// use xsched_policies::{Any, hpf::Hpf};
            ///
            /// struct Mine;
            /// assert!(Any::contains::<Hpf>() && Any::contains::<Any>());
            /// assert!(!Any::contains::<Mine>());
            /// ```
            #[must_use]
            pub fn contains<P: 'static>() -> bool {
                let known = [TypeId::of::<Self>(), $(TypeId::of::<$policy>()),*];
                known.contains(&TypeId::of::<P>())
            }

            fn get(&self) -> &dyn Policy {
                match self {
                    $(Self::$variant(policy) => policy,)*
                }
            }

            fn get_mut(&mut self) -> &mut dyn Policy {
                match self {
                    $(Self::$variant(policy) => policy,)*
                }
            }
        }

        impl FromStr for Any {
            type Err = UnknownPolicy;

            fn from_str(name: &str) -> Result<Self, UnknownPolicy> {
                $(
                    if is_called(name, $short) || is_called(name, $long) {
                        return Ok(Self::$variant(<$policy>::default()));
                    }
                )*
                Err(UnknownPolicy)
            }
        }
    };
}

fn is_called(name: &str, known: &str) -> bool {
    let plain = |text: &'_ str| text.len() - text.matches(['_', '-']).count();
    let letters = name.bytes().filter(|byte| !matches!(byte, b'_' | b'-'));
    let known_letters = known.bytes().filter(|byte| *byte != b'_');
    plain(name) == plain(known)
        && letters.zip(known_letters).all(|(a, b)| a.eq_ignore_ascii_case(&b))
}

any! {
    /// No scheduling.
    Fcfs(Fcfs) = "fcfs", "first_come_first_served";
    /// Highest priority first, per device.
    Hpf(Hpf) = "hpf", "highest_priority_first";
    /// Highest priority first across devices.
    Hhpf(Hhpf) = "hhpf", "heterogeneous_highest_priority_first";
    /// Highest priority of the submitting thread first.
    Chpf(Chpf) = "chpf", "cpu_highest_priority_first";
    /// Earliest deadline first.
    Edf(Edf) = "edf", "earliest_deadline_first";
    /// The K earliest deadlines first.
    Kedf(Kedf) = "kedf", "k_earliest_deadline_first";
    /// Laxity.
    Lax(Lax) = "lax", "laxity_based";
    /// Utilisation partition.
    Up(Up) = "up", "utilization_partition";
    /// Weighted fair queueing.
    Wfq(Wfq) = "wfq", "weighted_fair_queueing";
    /// Active window first.
    Awf(Awf) = "awf", "active_window_first";
    /// Multi-level feedback.
    Mlfq(Mlfq) = "mlfq", "multi_level_feedback_queue";
    /// Completely fair.
    Cfs(Cfs) = "cfs", "completely_fair_scheduler";
    /// Utilisation partition between processes.
    Pup(Pup) = "pup", "process_utilization_partition";
    /// Strict utilisation partition between processes.
    Spup(Spup) = "spup", "strict_process_utilization_partition";
    /// Strict classes, and the earliest deadline first in each.
    StrictEdf(StrictEdf) = "strict_edf", "strict_earliest_deadline_first";
    /// Strict classes, and the K earliest deadlines first in each.
    StrictKedf(StrictKedf) = "strict_kedf", "strict_k_earliest_deadline_first";
    /// Strict classes, and a utilisation partition in each.
    StrictUp(StrictUp) = "strict_up", "strict_utilization_partition";
    /// Strict classes, and weighted fair queueing in each.
    StrictWfq(StrictWfq) = "strict_wfq", "strict_weighted_fair_queueing";
}

/// Error for a name that no policy has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownPolicy;

impl fmt::Display for UnknownPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("unknown policy; known are")?;
        for (i, name) in Any::NAMES.iter().enumerate() {
            write!(f, "{} {name}", if i == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

impl core::error::Error for UnknownPolicy {}

forward!(Any, |this| this.get().name(), this.get(), this.get_mut());

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_any_spelling() {
        for name in Any::NAMES {
            let policy: Any = name.parse().expect("a listed name");
            assert_eq!(&policy.name(), name);
        }
        for name in ["HPF", "Highest-Priority-First", "highestpriorityfirst", "kEDF"] {
            assert!(name.parse::<Any>().is_ok(), "{name}");
        }
        for name in ["", "hp", "hpff", "highest priority first", "none"] {
            assert!(name.parse::<Any>().is_err(), "{name}");
        }
    }
}
