//! Partitions, fair shares and feedback.

use super::checks;
use super::{caught, kept};

#[test]
fn queues_without_a_hint_run_too() {
    caught("up", checks::unhinted_beside_busy, "ran 0.0 %");
    kept(&["up", "wfq"], checks::unhinted_beside_busy);
}

#[test]
fn idle_queues_with_a_hint_waste_nothing() {
    caught("up", checks::unhinted_beside_idle, "ran 0.0 %");
    kept(&["up", "wfq"], checks::unhinted_beside_idle);
}

#[test]
fn devices_are_shared_apart() {
    for name in ["up", "pup"] {
        caught(name, checks::shares_are_per_device, "the only queue of device");
    }
    kept(&["up", "wfq", "cfs"], checks::shares_are_per_device);
}

#[test]
fn a_process_that_comes_during_a_slice_waits_for_its_own() {
    caught("pup", checks::newcomer_waits_for_its_turn, "ran for 200 of 200");
    kept(&["up", "wfq"], checks::newcomer_waits_for_its_turn);
}

#[test]
fn a_new_queue_that_starves_old_ones_is_noticed() {
    caught("cfs", checks::newcomer_starves_no_queue, "the old queue ran 0.0 %");
    caught("cfs", checks::pause_starves_no_queue, "the old queue ran 0.0 %");
}

#[test]
fn sleep_that_is_saved_up_is_noticed() {
    caught("cfs", checks::sleeper_hoards_nothing, "stayed awake ran 0.");
}

#[test]
fn a_new_queue_does_not_starve_old_ones() {
    for check in [
        checks::newcomer_starves_no_queue,
        checks::pause_starves_no_queue,
        checks::sleeper_hoards_nothing,
    ] {
        kept(&["wfq", "up", "cfs", "pup"], check);
    }
}

#[test]
fn equals_do_not_change_places_whenever_anything_happens() {
    caught("mlfq", checks::equals_take_slices, "orders for two queues");
    kept(&["edf"], checks::equals_take_slices);
}

#[test]
fn a_queue_that_wakes_and_is_not_chosen_is_held() {
    caught("mlfq", checks::wakes_held, "ran together");
    kept(&["edf", "wfq", "up", "cfs"], checks::wakes_held);
}

#[test]
fn partitions_of_processes_are_sound() {
    for check in [
        checks::newcomer_waits_for_its_turn,
        checks::shares_are_per_device,
        checks::unhinted_beside_busy,
        checks::no_execute,
        checks::timers_do_not_multiply,
    ] {
        kept(&["pup", "spup"], check);
    }
    // The strict one is there to leave a device idle rather than give more than was hinted.
    kept(&["pup"], checks::unhinted_beside_idle);
}

#[test]
fn feedback_is_sound() {
    for check in [
        checks::equals_take_slices,
        checks::wakes_held,
        checks::no_execute,
        checks::timers_do_not_multiply,
    ] {
        kept(&["mlfq"], check);
    }
}
