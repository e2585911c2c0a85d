//! Dropping queues and devices in every state.
#![allow(unsafe_code, reason = "promises that commands are interruptible")]

mod common;

use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use common::{Open, Spin, device, hold, launch, open, push, retire, step, until};
use xsched_core::level::Step;
use xsched_hal_host::HostCommand;

/// The queue's thread has ended once it has given up all commands.
fn until_gone(spin: &Weak<Spin>) {
    until("the queue has ended", || spin.strong_count() == 0);
}

#[test]
fn an_idle_queue() {
    let device = device(1);
    drop(open(&device));
    // Its slot and its unit can be used again.
    let mut queue = open(&device);
    launch(&mut queue.submit, 0, &HostCommand::new(|| {}));
    retire(&mut queue.retire, 0);
}

#[test]
fn a_queue_with_work_finishes_it() {
    let (queue, list) = (open(&device(1)), Arc::default());
    let Open { mut submit, retire, preempt, .. } = queue;
    for n in 0..100 {
        launch(&mut submit, n, &push(&list, n));
    }
    drop((submit, retire, preempt));
    until("all ran", || Arc::strong_count(&list) == 1);
    assert_eq!(list.lock().unwrap().len(), 100);
}

fn held(steps: &[Step]) {
    let device = device(1);
    let mut queue = open(&device);
    let (spin, list) = (Spin::new(), Arc::default());
    launch(&mut queue.submit, 0, &spin.command());
    launch(&mut queue.submit, 1, &push(&list, 1));
    spin.until_running();
    for &s in steps {
        step(&mut queue.preempt, s);
    }
    drop(queue);
    // What was stopped goes on.
    spin.until_running();
    let weak = Arc::downgrade(&spin);
    spin.end();
    drop(spin);
    until_gone(&weak);
    until("dropped", || Arc::strong_count(&list) == 1);
    assert!(list.lock().unwrap().is_empty());
    // The unit is free.
    let mut next = open(&device);
    launch(&mut next.submit, 0, &push(&list, 2));
    retire(&mut next.retire, 0);
}

#[test]
fn a_deactivated_queue() {
    held(&[Step::Deactivate]);
}

#[test]
fn an_interrupted_queue() {
    held(&[Step::Deactivate, Step::Interrupt]);
    held(&[Step::Interrupt]);
}

#[test]
fn an_interrupted_queue_whose_unit_is_elsewhere() {
    let device = device(1);
    let (mut low, mut high) = (open(&device), open(&device));
    let (spin, busy) = (Spin::new(), Spin::new());
    launch(&mut low.submit, 0, &spin.command());
    spin.until_running();
    hold(&mut low.preempt);
    launch(&mut high.submit, 0, &busy.command());
    busy.until_running();
    drop(low);
    spin.end();
    assert_eq!(Arc::strong_count(&spin), 2);
    hold(&mut high.preempt);
    let weak = Arc::downgrade(&spin);
    drop(spin);
    until_gone(&weak);
    busy.end();
}

#[test]
fn halves_in_any_order_and_the_device_first() {
    for order in 0..6 {
        let device = device(1);
        let Open { mut submit, retire, mut preempt, .. } = open(&device);
        drop(device);
        let spin = Spin::new();
        launch(&mut submit, 0, &spin.command());
        spin.until_running();
        if order % 2 == 0 {
            hold(&mut preempt);
        }
        let mut halves: [Option<Box<dyn Send>>; 3] =
            [Some(Box::new(submit)), Some(Box::new(retire)), Some(Box::new(preempt))];
        for n in 0..3 {
            halves[(n * (1 + order % 2) + order / 2) % 3] = None;
        }
        let weak = Arc::downgrade(&spin);
        spin.end();
        drop(spin);
        until_gone(&weak);
    }
}

#[test]
fn the_last_half_within_a_command() {
    let mut queue = open(&device(1));
    let place: Arc<Mutex<Option<Open>>> = Arc::default();
    let inside = Arc::clone(&place);
    let spin = Spin::new();
    let weak = Arc::downgrade(&spin);
    let after = Mutex::new(Some(spin));
    let command = HostCommand::new(move || {
        until("the queue is in its place", || inside.lock().unwrap().is_some());
        let queue = inside.lock().unwrap().take();
        drop(queue);
        drop(after.lock().unwrap().take());
    });
    launch(&mut queue.submit, 0, &command);
    drop(command);
    *place.lock().unwrap() = Some(queue);
    until_gone(&weak);
    until("the command is dropped", || Arc::strong_count(&place) == 1);
}

#[test]
fn many_queues_come_and_go() {
    let device = device(2);
    let list = Arc::default();
    for n in 0..300 {
        let mut queue = open(&device);
        launch(&mut queue.submit, 0, &push(&list, n));
        if n % 10 == 0 {
            std::thread::sleep(Duration::from_micros(100));
        }
    }
    until("all ran", || list.lock().unwrap().len() == 300);
}
