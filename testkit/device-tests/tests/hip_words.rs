//! Words in memory of each kind, on the emulated HIP runtime.
#![allow(unsafe_code, reason = "drivers' handles")]

#[path = "../../../hal-hip/tests/common/mod.rs"]
mod common;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use xsched_lab::kernels::{BareStream, Place, PlacedWord, Ring};

use common::{Kernels, counter, device, throughout, until};

#[test]
fn a_word_in_each_kind_of_memory_holds_a_stream_and_lets_it_go() {
    let api = Arc::new(device());
    let kernels = Kernels::load(&api);
    let writer = BareStream::new(&api, Ring::Own).expect("a stream");
    for place in Place::ALL {
        let (word, held) = (counter(), BareStream::new(&api, Ring::Own).expect("a stream"));
        let gate = PlacedWord::new(&api, place).expect("memory");
        assert_eq!(gate.place(), place);
        writer.write(&gate, 1).expect("a write");
        writer.synchronize().expect("it is written");
        held.hold(&gate).expect("a wait");
        held.launch(&kernels.add(0, word)).expect("a launch");
        throughout("it is held", || word.load(Ordering::Acquire) == 0);
        writer.write(&gate, 0).expect("a write");
        until(place.name(), || word.load(Ordering::Acquire) == 1);
    }
}
