//! Names, switches of policies and timers: what is around policies.

use super::checks::{self, Found};
use super::rig::Driver;
use super::{NAMES, Tried, caught, kept, ours, upstream};

fn build(name: &str) -> Tried {
    ours(name).expect("one of ours")
}

/// Checks that every name is a policy.
fn every_name_is_a_policy(build: impl Fn(&str) -> Option<Tried>) -> Found {
    match NAMES.iter().find(|name| build(name).is_none_or(|policy| policy.name() != **name)) {
        Some(name) => Err(format!("{name} is a name without a policy")),
        None => Ok(()),
    }
}

#[test]
fn a_name_without_a_policy_is_noticed() {
    let found = every_name_is_a_policy(upstream);
    assert_eq!(found, Err("spup is a name without a policy".to_owned()));
}

#[test]
fn all_names_of_the_original_are_policies() {
    assert_eq!(every_name_is_a_policy(ours), Ok(()));
}

#[test]
fn a_switch_of_policies_is_carried_out_at_once() {
    let check = |driver| checks::switch_is_carried_out(driver, [build("hpf"), build("fcfs")]);
    let found = check(Driver::SwitchesOnPaper).expect_err("the defect goes unnoticed");
    assert!(found.contains("is no longer held ran 0.0 %"), "{found}");
    assert_eq!(check(Driver::Ours), Ok(()));
}

#[test]
fn a_switch_of_policies_keeps_hints() {
    let check = |policy| checks::switch_keeps_hints([build("fcfs"), policy]);
    for name in ["hpf", "hhpf"] {
        caught(name, check, "hints are lost");
        kept(&[name], check);
    }
}

#[test]
fn events_do_not_multiply_timers() {
    caught("mlfq", checks::timers_do_not_multiply, "decisions a second");
    kept(&["hpf", "kedf", "lax", "up", "wfq", "cfs"], checks::timers_do_not_multiply);
}
