//! All gates of a device, their watch, and queues that come and go.

use std::sync::Arc;
use std::time::Duration;

use super::harness::{explore, join, start};
use super::{Flag, flag, seen};
use crate::board::{Board, Member};
use crate::gate::OWN;

fn board() -> Arc<Board<Flag>> {
    Arc::new(Board::new(Duration::from_micros(200), Duration::MAX))
}

fn member() -> (Arc<Member<Flag>>, Flag) {
    let word = flag();
    (Arc::new(Member::new(Arc::clone(&word))), word)
}

/// A watch that lies down while a gate is closed does not miss it. Its rest has no time limit
/// here, so one that missed it would never end.
#[test]
fn a_watch_that_is_about_to_rest() {
    explore("board::a_watch_that_is_about_to_rest", 6, || {
        let board = board();
        let watch = {
            let board = Arc::clone(&board);
            start(move || while !board.rest() {})
        };
        let (first, second) = (member().0, member().0);
        board.add(&first);
        board.add(&second);
        let other = {
            let board = Arc::clone(&board);
            start(move || board.want(&second, true))
        };
        board.want(&first, true);
        join(other);
        join(watch);
    });
}

/// A hold that ends and comes again is not missed either.
#[test]
fn a_hold_that_comes_again() {
    explore("board::a_hold_that_comes_again", 6, || {
        let board = board();
        let watch = {
            let board = Arc::clone(&board);
            start(move || while !board.rest() {})
        };
        let (member, _) = member();
        board.add(&member);
        board.want(&member, true);
        board.want(&member, false);
        board.want(&member, true);
        join(watch);
    });
}

/// While all gates are lifted, so is a queue that comes then; afterwards it is what its holder
/// wants.
#[test]
fn a_queue_that_comes_during_a_lift() {
    explore("board::a_queue_that_comes_during_a_lift", 6, || {
        let board = board();
        let (old, old_word) = member();
        let (new, new_word) = member();
        board.add(&old);
        board.want(&old, true);
        let opener = {
            let (board, new) = (Arc::clone(&board), Arc::clone(&new));
            start(move || {
                board.add(&new);
                board.want(&new, true);
            })
        };
        let lifted = board.lift();
        assert!((1..=2).contains(&lifted.closed), "how many were closed");
        assert_eq!((seen(&old_word), seen(&new_word)), (0, 0), "closed while all are lifted");
        assert_eq!((seen(&old_word), seen(&new_word)), (0, 0), "closed while all are lifted");
        drop(lifted);
        join(opener);
        assert_eq!((seen(&old_word), seen(&new_word)), (OWN, OWN), "open in the end");
    });
}

/// A queue that goes during a lift leaves nothing behind, and its gate stays open.
#[test]
fn a_queue_that_goes_during_a_lift() {
    explore("board::a_queue_that_goes_during_a_lift", 6, || {
        let board = board();
        let (member, word) = member();
        board.add(&member);
        board.want(&member, true);
        let closer = {
            let board = Arc::clone(&board);
            start(move || {
                board.want(&member, false);
                drop(member);
            })
        };
        let lifted = board.lift();
        assert_eq!(seen(&word), 0, "closed while all are lifted");
        drop(lifted);
        join(closer);
        assert_eq!(seen(&word), 0, "closed in the end");
        let (next, next_word) = self::member();
        board.add(&next);
        board.want(&next, true);
        assert_eq!(seen(&next_word), OWN, "a lift that has ended is still in force");
    });
}
