use super::*;
use crate::scripted::{Fake, Scripted, queue};
use crate::uapi;

fn module() -> Module {
    Module { version: Some("6.12.12-el8_preempt".to_owned()), ..Module::default() }
}

fn patched() -> (Fake, PatchedDriver<Fake>) {
    let fake = Fake::with_queues(2);
    fake.state().has_patch = true;
    let driver = PatchedDriver::new(fake.versioned(), Some("_preempt"), &module(), 1_000);
    (fake, driver.expect("it is patched and permitted"))
}

#[test]
fn queues_are_suspended_and_resumed() {
    let (fake, driver) = patched();
    let queues = [queue(0), queue(1)];
    assert_eq!(driver.suspend(&queues), [Ok(()), Ok(())]);
    assert_eq!(driver.suspend(&queues), [Ok(()), Ok(())]);
    assert!(!fake.is_active(0) && !fake.is_active(1));
    assert_eq!(fake.state().preemptions, 2);
    assert_eq!(driver.is_still_suspended(&queues[0]), Ok(true));
    assert_eq!(driver.resume(&queues[..1]), [Ok(())]);
    assert!(fake.is_active(0));
    drop(driver);
    assert!(fake.is_active(1), "the drop resumes what is suspended");
}

#[test]
fn a_queue_that_is_gone_is_unknown() {
    let (fake, driver) = patched();
    let one = queue(0);
    assert_eq!(driver.suspend(std::slice::from_ref(&one)), [Ok(())]);
    fake.state().queues.clear();
    let answer = driver.resume(std::slice::from_ref(&one));
    assert!(matches!(answer[0], Err(KfdError::UnknownQueue { queue: 0, .. })));
    assert_eq!(driver.is_still_suspended(&one), Ok(false));
}

#[test]
fn it_needs_the_opt_in() {
    let fake = Fake::with_queues(1);
    fake.state().has_patch = true;
    for asked in [None, Some(""), Some("  ")] {
        let refused = PatchedDriver::new(fake.versioned(), asked, &module(), 1_000);
        let variable = OPT_IN_VARIABLE;
        assert_eq!(
            refused.expect_err("the variable is not set"),
            KfdError::OptInMissing { variable }
        );
    }
    let stock = Module { version: Some("6.12.12".to_owned()), ..Module::default() };
    let refused = PatchedDriver::new(fake.versioned(), Some("_preempt"), &stock, 1_000);
    assert!(matches!(refused, Err(KfdError::NotPatched { .. })));
    // The only call asked for the version.
    let versions = fake.count(uapi::GET_VERSION.request, None);
    assert_eq!(versions, fake.state().calls.len());
}

#[test]
fn a_module_without_the_calls_is_refused() {
    let fake = Fake::with_queues(1);
    let refused = PatchedDriver::new(fake.versioned(), Some("_preempt"), &module(), 1_000);
    let error = refused.expect_err("it has none");
    assert!(matches!(error, KfdError::NotSupported { errno: Errno::NOTTY, .. }), "{error}");
}

#[test]
fn another_call_under_the_number_is_refused() {
    // GPreempt's driver has no 0x87, and its 0x88 takes 32 bytes and succeeds with zeros in them.
    for (preempt, resume, number) in [
        (Ok(0), Ok(0), 0x87),
        (Err(Errno::INVAL), Ok(0), 0x88),
        (Err(Errno::INVAL), Err(Errno::PERM), 0x88),
    ] {
        let driver = Scripted::new(move |request, argument| {
            if request == uapi::GET_VERSION.request {
                argument.copy_from_slice(&[1, 0, 0, 0, 17, 0, 0, 0]);
                return Ok(0);
            }
            if request == PREEMPT_QUEUE.request { preempt } else { resume }
        });
        let driver = Arc::new(Versioned::ask(driver).expect("it answers"));
        let refused = PatchedDriver::new(driver, Some("_preempt"), &module(), 1_000);
        let error = refused.expect_err("it is another call");
        assert!(matches!(error, KfdError::CallMismatch { number: n, .. } if n == number));
    }
}
