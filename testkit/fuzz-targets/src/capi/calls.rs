//! From bytes to calls.

use std::ffi::CStr;
use std::ptr::null_mut;

use super::pool::{Of, callback, pool};
use preempt::hint::{
    XHintDeadline, XHintFloor, XHintKDeadline, XHintLaxity, XHintPriority, XHintSetScheduler,
    XHintTimeslice, XHintUtilization,
};
use preempt::private::{
    xsched_private_auto_queue, xsched_private_cuda_queue_create, xsched_private_hip_queue_create,
    xsched_private_host_command_create_timed, xsched_private_host_queue_create,
    xsched_private_stream_queue_get,
};
use preempt::types::{XQueueState, XResult};
use preempt::xqueue::{
    HwCommandCreateCallback, HwCommandDestroy, HwQueueDestroy, HwQueueLaunch, HwQueueSynchronize,
    XQueueCreate, XQueueDestroy, XQueueGet, XQueueProfileHwCommandCount, XQueueQuery, XQueueResume,
    XQueueSetLaunchConfig, XQueueSetPreemptLevel, XQueueSubmit, XQueueSuspend, XQueueWait,
    XQueueWaitAll, XSchedGetLastErrorString,
};

const OK: XResult = XResult::kXSchedSuccess;

/// Makes calls from bytes.
#[derive(Debug)]
pub(super) struct Caller<'a> {
    bytes: std::slice::Iter<'a, u8>,
}

impl<'a> Caller<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes: bytes.iter() }
    }

    fn byte(&mut self) -> u8 {
        self.bytes.next().copied().unwrap_or(0)
    }

    /// A small number, or one that is out of every range.
    fn number(&mut self) -> i64 {
        match self.byte() {
            255 => i64::MAX,
            254 => i64::MIN,
            253 => i64::from(i32::MAX) + 1,
            252 => 100_000,
            byte => i64::from(byte) - 8,
        }
    }

    fn int(&mut self) -> i32 {
        let number = self.number();
        i32::try_from(number).unwrap_or(if number < 0 { i32::MIN } else { i32::MAX })
    }

    /// A handle, most often of this kind and alive.
    fn handle(&mut self, of: Of) -> u64 {
        let which = self.byte();
        match which {
            255 => 0,
            254 => u64::MAX,
            253 => pool().pick(of, which) ^ 1 << 21,
            252 => pool().pick(of, which) ^ 1 << 50,
            248..=251 => pool().pick(Of::Command, which),
            244..=247 => pool().pick(Of::XQueue, which),
            which => pool().pick(of, which),
        }
    }

    fn xq(&mut self) -> u64 {
        self.handle(Of::XQueue)
    }

    fn hwq(&mut self) -> u64 {
        self.handle(Of::HwQueue)
    }

    /// Makes one call. False if there are no more bytes.
    pub(super) fn call(&mut self) -> bool {
        let Some(&byte) = self.bytes.next() else { return false };
        let answer = match byte {
            0..=15 => self.make_queue(),
            16..=47 => self.make_command(),
            48..=63 => self.unmake(),
            64..=127 => self.submit(),
            128..=175 => self.wait_or_hold(),
            176..=207 => self.configure(),
            208..=239 => self.hint(),
            _ => self.ask(),
        };
        if answer != OK {
            // SAFETY: the text ends with zero, and stays until this thread's next refusal.
            let why = unsafe { CStr::from_ptr(XSchedGetLastErrorString()) };
            assert!(!why.is_empty(), "no reason for {answer:?}");
        }
        true
    }

    fn make_queue(&mut self) -> XResult {
        let kind = self.byte() % 8;
        if kind < 3 && pool().has_room(Of::HwQueue) {
            let mut hwq = 0;
            // SAFETY: it may be written to.
            let answer = unsafe { xsched_private_host_queue_create(&raw mut hwq) };
            assert!(answer != OK || hwq != 0, "a handle that is 0");
            if answer == OK {
                pool().keep(Of::HwQueue, hwq);
            }
            return answer;
        }
        let mut handle = 0;
        if kind < 6 && pool().has_room(Of::XQueue) {
            let (hwq, level, flags) = (self.hwq(), self.number() % 6, self.number() % 3);
            // SAFETY: it may be written to.
            let answer = unsafe { XQueueCreate(&raw mut handle, hwq, level, flags) };
            if answer == OK {
                pool().keep(Of::XQueue, handle);
            }
            return answer;
        }
        // Streams that there cannot be, and pointers that are null.
        // SAFETY: null is refused.
        unsafe {
            match kind {
                3 => xsched_private_hip_queue_create(&raw mut handle, null_mut()),
                4 => xsched_private_cuda_queue_create(&raw mut handle, null_mut()),
                5 => xsched_private_stream_queue_get(&raw mut handle, null_mut()),
                6 => xsched_private_auto_queue(&raw mut handle, self.hwq()),
                _ => XQueueCreate(null_mut(), self.hwq(), 1, 0),
            }
        }
    }

    fn make_command(&mut self) -> XResult {
        let mut command = 0;
        let kind = self.byte();
        if !pool().has_room(Of::Command) {
            let command = pool().pick(Of::Command, kind);
            pool().forget(Of::Command, command);
            // It may have been submitted, launched or destroyed.
            return HwCommandDestroy(command);
        }
        let us = i64::from(self.byte() % 32);
        // SAFETY: it may be written to, and the callback's data is a number.
        let answer = unsafe {
            match kind {
                0..=199 => {
                    HwCommandCreateCallback(&raw mut command, Some(callback), pool().callback())
                }
                200..=239 => xsched_private_host_command_create_timed(&raw mut command, us),
                240..=247 => HwCommandCreateCallback(&raw mut command, None, null_mut()),
                _ => HwCommandCreateCallback(null_mut(), Some(callback), null_mut()),
            }
        };
        if answer == OK {
            pool().keep(Of::Command, command);
        }
        answer
    }

    /// A handle that was destroyed is not found afterwards.
    fn unmake(&mut self) -> XResult {
        match self.byte() % 4 {
            0 => {
                let xq = self.xq();
                let answer = XQueueDestroy(xq);
                if answer == OK {
                    pool().forget(Of::XQueue, xq);
                    assert_eq!(XQueueWaitAll(xq), XResult::kXSchedErrorNotFound);
                }
                answer
            }
            1 => {
                let hwq = self.hwq();
                let answer = HwQueueDestroy(hwq);
                if answer == OK {
                    pool().forget(Of::HwQueue, hwq);
                    assert_eq!(HwQueueSynchronize(hwq), XResult::kXSchedErrorNotFound);
                }
                answer
            }
            _ => {
                let command = self.handle(Of::Command);
                let answer = HwCommandDestroy(command);
                if answer == OK {
                    pool().forget(Of::Command, command);
                    assert_eq!(HwCommandDestroy(command), XResult::kXSchedErrorNotFound);
                }
                answer
            }
        }
    }

    fn submit(&mut self) -> XResult {
        let command = self.handle(Of::Command);
        match self.byte() % 8 {
            0 => HwQueueLaunch(self.hwq(), command),
            _ => XQueueSubmit(self.xq(), command),
        }
    }

    fn wait_or_hold(&mut self) -> XResult {
        match self.byte() % 8 {
            0 => XQueueWaitAll(self.xq()),
            1 => HwQueueSynchronize(self.hwq()),
            2 => XQueueWait(self.xq(), self.handle(Of::Command)),
            3..=5 => XQueueSuspend(self.xq(), self.number() % 10),
            _ => XQueueResume(self.xq(), self.number() % 3),
        }
    }

    fn configure(&mut self) -> XResult {
        match self.byte() % 2 {
            0 => XQueueSetPreemptLevel(self.xq(), self.int() % 6),
            _ => XQueueSetLaunchConfig(self.xq(), self.number(), self.number()),
        }
    }

    fn hint(&mut self) -> XResult {
        match self.byte() % 16 {
            0 => XHintSetScheduler(self.int() % 5, self.int() % 14),
            1..=4 => XHintPriority(self.xq(), self.int()),
            5..=7 => XHintUtilization(self.xq(), self.int()),
            8 => XHintTimeslice(self.number()),
            9..=11 => XHintLaxity(self.xq(), self.number(), self.int(), self.int()),
            12..=14 => XHintDeadline(self.xq(), self.number()),
            _ if self.byte().is_multiple_of(2) => XHintFloor(f64::from(self.byte()) / 255.0),
            _ => XHintKDeadline(usize::from(self.byte())),
        }
    }

    fn ask(&mut self) -> XResult {
        let (mut handle, mut count) = (0, -1);
        let mut state = XQueueState::kQueueStateUnknown;
        // SAFETY: all may be written to, or are null, which is refused.
        unsafe {
            match self.byte() % 5 {
                0 => XQueueGet(&raw mut handle, self.hwq()),
                1 => XQueueQuery(self.xq(), &raw mut state),
                2 => {
                    let answer = XQueueProfileHwCommandCount(self.xq(), &raw mut count);
                    assert_eq!(answer == OK, count >= 0, "{answer:?} with {count}");
                    answer
                }
                3 => XQueueQuery(self.xq(), null_mut()),
                _ => XQueueGet(null_mut(), self.hwq()),
            }
        }
    }
}
