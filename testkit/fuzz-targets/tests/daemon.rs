//! Bytes that processes send to the daemon and write into their pages, from the corpus.

use xsched_fuzz_targets::{corpus, daemon};

#[test]
fn what_is_sent_and_written_does_no_harm() {
    for (name, target) in
        [("daemon_socket", daemon::socket as fn(&[u8])), ("daemon_pages", daemon::pages)]
    {
        for (path, bytes) in corpus(name) {
            let told = std::panic::catch_unwind(|| target(&bytes));
            assert!(told.is_ok(), "{}", path.display());
        }
        for length in [0, 1, 50_000] {
            [0, 1, 13, 255].into_iter().for_each(|byte| target(&vec![byte; length]));
        }
    }
}
