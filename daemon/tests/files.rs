//! Processes that hand over files that are no pages, and pages that say anything.

use std::fs::{File, OpenOptions};
use std::io::{IoSlice, Write};
use std::mem::{MaybeUninit, offset_of};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use rustix::fs::{FallocateFlags, MemfdFlags, OFlags, SealFlags, fcntl_add_seals, memfd_create};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use xsched_core::rng::SplitMix64;
use xsched_node::{
    Answer, GATES_PER_PAGE, PAGE_VERSION, PageHeader, Request, SharedPage, VERSION, Wire,
};

mod node;
use node::{
    Honest, Node, Over, PATIENCE, attach, daemon_process, hello, raw, refusal, wait, write,
};

fn memfd(bytes: u64, flags: MemfdFlags, seals: SealFlags) -> std::io::Result<OwnedFd> {
    let file = File::from(memfd_create("page", flags | MemfdFlags::ALLOW_SEALING)?);
    file.set_len(bytes)?;
    fcntl_add_seals(&file, seals)?;
    Ok(file.into())
}

#[test]
fn files_that_are_no_pages_are_refused_and_the_connection_goes_on() {
    let node = Node::new();
    let honest = Honest::new(&node.socket);
    let wire = node.greeted();
    let page = SharedPage::create().expect("a page");
    let read_only = OpenOptions::new().read(true).open(page.path()).expect("a file");
    let (pipe, _writer) = std::io::pipe().expect("a pipe");
    let plain = MemfdFlags::empty();
    let memfd_of = |bytes, seals| memfd(bytes, plain, seals).expect("a memory file");
    let mut files: Vec<OwnedFd> = vec![
        pipe.into(),
        File::open("/").expect("a folder").into(),
        File::open("/dev/zero").expect("a device").into(),
        raw(&node.socket),
        read_only.into(),
        memfd_of(4_096, SealFlags::GROW),
        memfd_of(4_095, SealFlags::SHRINK),
        memfd_of(0, SealFlags::SHRINK | SealFlags::GROW),
        memfd_of(4_096, SealFlags::SHRINK | SealFlags::WRITE),
    ];
    // The system need not have any.
    files.extend(memfd(2 << 20, MemfdFlags::HUGETLB, SealFlags::SHRINK));
    for file in &files {
        refusal(wire.ask(&attach("gpu"), Some(file.as_fd())));
    }
    let status = node.status();
    let hostile = status.clients.iter().find(|client| client.name != "honest").expect("known");
    assert_eq!(hostile.device, "");
    wire.ask(&attach("gpu"), Some(page.as_fd())).expect("attached");
    honest.is_scheduled(&node.socket);
}

#[test]
fn a_message_with_too_many_files_is_refused_and_the_connection_goes_on() {
    let node = Node::new();
    let honest = Honest::new(&node.socket);
    let socket = raw(&node.socket);
    let text = serde_json::to_vec(&hello(VERSION)).expect("JSON");
    rustix::net::send(&socket, &text, SendFlags::empty()).expect("sent");
    let wire = Wire::new(socket);
    let welcome = wire.receive::<Answer>().expect("a welcome").0;
    assert!(matches!(welcome, Answer::Welcome { .. }));
    let page = SharedPage::create().expect("a page");
    let text = serde_json::to_vec(&attach("gpu")).expect("JSON");
    for count in [3, 253] {
        let fds = vec![page.as_fd(); count];
        let mut space = vec![MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(253))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        assert!(control.push(SendAncillaryMessage::ScmRights(&fds)));
        sendmsg(&wire, &[IoSlice::new(&text)], &mut control, SendFlags::empty()).expect("sent");
        let Answer::Refused { why } = wire.receive::<Answer>().expect("an answer").0 else {
            panic!("not refused");
        };
        assert!(why.contains("file descriptors"), "{why}");
    }
    wire.ask(&attach("gpu"), Some(page.as_fd())).expect("attached");
    honest.is_scheduled(&node.socket);
}

/// The seal against shrinking is all that is asked for, and it is enough.
#[test]
fn a_page_cannot_be_truncated_and_a_hole_in_it_reads_as_zeros() {
    let node = Node::new();
    let honest = Honest::new(&node.socket);
    let wire = node.greeted();
    let file = memfd(4_096, MemfdFlags::empty(), SealFlags::SHRINK).expect("a memory file");
    rustix::io::pwrite(&file, &PAGE_VERSION.to_ne_bytes(), 0).expect("a version");
    wire.ask(&attach("gpu"), Some(file.as_fd())).expect("attached");
    let file = File::from(file);
    assert!(file.set_len(0).is_err());
    file.set_len(1 << 20).expect("it may grow");
    let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    for _ in 0..20 {
        rustix::fs::fallocate(&file, hole, 0, 4_096).expect("a hole");
        node.status();
    }
    honest.is_scheduled(&node.socket);
}

/// With the page of another, a process that has its descriptor could write to it anyway.
#[test]
fn a_page_that_is_attached_twice_does_no_harm() {
    let node = Node::new();
    let honest = Honest::new(&node.socket);
    let (one, two) = (node.greeted(), node.greeted());
    let page = SharedPage::create().expect("a page");
    for wire in [&one, &one, &two] {
        wire.ask(&attach("gpu"), Some(page.as_fd())).expect("attached");
    }
    one.ask(&attach("other"), Some(page.as_fd())).expect("attached");
    honest.is_scheduled(&node.socket);
    drop((one, two));
    node.until("they do not leave", |status| status.clients.len() == 1);
    honest.is_scheduled(&node.socket);
}

#[test]
fn gpus_with_made_up_names_are_bounded_and_forgotten() {
    let node = Node::new();
    let honest = Honest::new(&node.socket);
    for round in 0..4 {
        let wire = node.greeted();
        let attached = (0..100).take_while(|n| {
            let page = SharedPage::create().expect("a page");
            wire.ask(&attach(&format!("{round}-{n}")), Some(page.as_fd())).is_ok()
        });
        // One is the honest process's.
        assert_eq!(attached.count(), 31);
        let page = SharedPage::create().expect("a page");
        for name in ["\u{1b}[2J", "a b", "gpü"] {
            let why = refusal(wire.ask(&attach(name), Some(page.as_fd())));
            assert!(why.contains("1 to 128"), "{why}");
        }
        drop(wire);
        node.until("it does not leave", |status| status.clients.len() == 1);
    }
    honest.is_scheduled(&node.socket);
}

/// Each number of the header and each gate, changed at random while the daemon reads them: counters
/// go backwards and wrap around.
#[test]
fn nonsense_in_pages_harms_no_other() {
    let node = Node::of("wfq", false);
    let wires: Vec<_> = (0..8).map(|_| node.greeted()).collect();
    let mut random = SplitMix64::new(7);
    let pages = wires.iter().map(|wire| {
        let page = SharedPage::create().expect("a page");
        // All of the header but the version, with which the page would be refused.
        let numbers: Vec<_> = (1..16).flat_map(|_| random.next_u64().to_ne_bytes()).collect();
        write(&page, 4, &numbers);
        wire.ask(&attach("gpu"), Some(page.as_fd())).expect("attached");
        page
    });
    let pages: Vec<_> = pages.collect();
    for _ in 0..20_000 {
        let page = &pages[random.below(8) as usize];
        let value = [0, 1, u64::MAX, random.next_u64()][random.below(4) as usize];
        write(page, random.below(16) * 8, &value.to_ne_bytes());
        let gate = page.gate(random.below(GATES_PER_PAGE as u64) as usize);
        gate.word.store(value as u32, Ordering::SeqCst);
    }
    pages.iter().for_each(|page| page.header().loaded_queues.store(0, Ordering::SeqCst));
    let of = |name: &str| Request::Policy { name: name.to_owned() };
    node.connect().ask(&of("hpf"), None).expect("another policy");
    let honest = Honest::new(&node.socket);
    honest.is_scheduled(&node.socket);
    for client in node.status().clients {
        assert!(client.device_ms < 60_000, "{client:?}");
    }
}

/// A number of 64 bits is written as two of 32, so that it is now large and now small: no process
/// has used more device time than has passed, nor less than before.
#[test]
fn a_number_that_is_written_in_halves_says_no_more_than_can_be() {
    let node = Node::new();
    let _honest = Honest::new(&node.socket);
    let wire = node.greeted();
    let page = SharedPage::create().expect("a page");
    page.header().loaded_queues.store(1, Ordering::SeqCst);
    let start = Instant::now();
    wire.ask(&attach("gpu"), Some(page.as_fd())).expect("attached");
    let is_over = AtomicBool::new(false);
    let low = offset_of!(PageHeader, used_ns) as u64;
    let high = low + 4;
    std::thread::scope(|scope| {
        let _over = Over(&is_over);
        scope.spawn(|| {
            let mut passed = 0_u32;
            while !is_over.load(Ordering::Relaxed) {
                passed = passed.wrapping_add(1);
                for (half, value) in [(low, u32::MAX), (high, passed), (high, 0), (low, passed)] {
                    write(&page, half, &value.to_ne_bytes());
                }
            }
        });
        let mut before_ms = 0;
        for _ in 0..300 {
            let status = node.status();
            let of = status.clients.iter().find(|client| client.name != "honest");
            let used_ms = of.expect("it is known").device_ms;
            assert!(used_ms >= before_ms, "{used_ms} ms after {before_ms} ms");
            assert!(u128::from(used_ms) <= start.elapsed().as_millis(), "{used_ms} ms");
            before_ms = used_ms;
        }
    });
}

/// Process that has the same open file as the daemon: a read by the daemon could wait for ever.
#[test]
fn a_doorbell_that_blocks_and_is_emptied_stops_no_other() {
    // One of its own, which the end of this test does not wait for.
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("socket");
    let _daemon = daemon_process(&socket, 1_024);
    let honest = Honest::new(&socket);
    let wire = Wire::connect(&socket, PATIENCE).expect("a connection");
    let doorbell = wire.ask(&hello(VERSION), None).expect("a welcome").1.expect("an eventfd");
    rustix::fs::fcntl_setfl(&doorbell, OFlags::empty()).expect("a flag");
    // On a thread that waits for ever if the daemon empties it first.
    let process = std::thread::spawn(move || {
        for _ in 0..20_000 {
            rustix::io::write(&doorbell, &1_u64.to_ne_bytes()).expect("rung");
            rustix::io::read(&doorbell, &mut [0; 8]).expect("emptied");
        }
        rustix::io::write(&doorbell, &(u64::MAX - 1).to_ne_bytes()).expect("full");
    });
    wait("the daemon reads it", || process.is_finished());
    honest.is_scheduled(&socket);
}

#[test]
fn what_is_no_socket_stays_where_a_daemon_shall_listen() {
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    file.write_all(b"precious").expect("written");
    assert!(xsched_daemon::Daemon::start(&node::settings(file.path())).is_err());
    assert_eq!(std::fs::read(file.path()).expect("it is there"), b"precious");
}
