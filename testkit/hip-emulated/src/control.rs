//! Functions that HIP does not have, for tests.

use std::sync::atomic::Ordering;

use xsched_emulated_device::code::{INVALID_DEVICE, INVALID_VALUE};

use crate::api::{In, Out, Text, exports};
use crate::runtime::{Kernel, Known, runtime};

exports! {
    fn xsched_emulated_register(
        name: Text,
        kernel: Option<Kernel>,
        sizes: In<usize>,
        count: usize,
    ) {
        let kernel = kernel.ok_or(INVALID_VALUE)?;
        runtime().add_kernel(name.get()?, Known { kernel, sizes: sizes.slice(count)?.into() });
        Ok(())
    }

    fn xsched_emulated_devices(count: u32) {
        runtime().set_visible(count);
        Ok(())
    }

    fn xsched_emulated_fail(call: Text, code: u32, times: u32) {
        runtime().fail(call.get()?, code, times);
        Ok(())
    }

    fn xsched_emulated_lose(device: u32, code: u32) {
        runtime().device(device).ok_or(INVALID_DEVICE)?.lose(code);
        Ok(())
    }

    fn xsched_emulated_capture(stream: usize, status: u32) {
        runtime().stream(stream)?.pretended.store(status, Ordering::Release);
        Ok(())
    }

    fn xsched_emulated_in_flight(stream: usize, count: Out<u64>) {
        let stream = runtime().stream(stream)?;
        // In this order: what is done was launched.
        let done = stream.done();
        count.set(stream.launched().saturating_sub(done))
    }

    fn xsched_emulated_calls(call: Text, count: Out<u64>) {
        count.set(runtime().calls(&call.get()?))
    }

    fn xsched_emulated_unseen_ends(count: Out<u64>) {
        count.set(runtime().unseen_ends())
    }

    fn xsched_emulated_handles(count: Out<usize>) {
        count.set(runtime().handles())
    }
}
