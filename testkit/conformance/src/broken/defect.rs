//! The defects, and the checks that find them.

/// Declares [`Defect`] with what each does, and the checks that must fail for it.
macro_rules! defects {
    ($($(#[doc = $doc:literal])+ $name:ident: $($check:literal),+;)+) => {
        /// One thing that a device does wrong.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum Defect {
            $($(#[doc = $doc])+ $name,)+
        }

        impl Defect {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$name),+];

            /// The checks that must fail.
            #[must_use]
            pub const fn found_by(self) -> &'static [&'static str] {
                match self {
                    $(Self::$name => &[$($check),+],)+
                }
            }
        }
    };
}

defects! {
    /// Launches a command after the next one.
    SwapsLaunches: "order::each_runs_once_and_in_order";
    /// Reports commands that it has not run.
    LosesCommands: "order::each_runs_once_and_in_order";
    /// Runs a command again.
    RunsTwice: "order::each_runs_once_and_in_order", "contract::a_random_life_with_the_core";
    /// Reports commands when they are launched.
    ReportsEarly: "order::reported_after_the_end";
    /// Waits in a launch when a few commands are in flight.
    LaunchBlocks: "order::launches_up_to_the_limit_do_not_block";
    /// Takes half of the commands that it has room for.
    RefusesEarly: "order::launches_up_to_the_limit_do_not_block";
    /// Forgets fences of launches.
    LosesFences: "fence::fenced_is_seen";
    /// Shows all completions.
    FencesEverything: "fence::unfenced_is_not_seen";
    /// Forgets fences on demand.
    IgnoresFences: "fence::put_after_the_fact";
    /// A fence on demand shows commands that still run.
    FenceShowsAtOnce: "fence::put_while_running";
    /// Refuses a fence when nothing is in flight.
    RefusesIdleFences: "fence::put_behind_nothing";
    /// Reports a completion twice.
    RepeatsReports: "retire::goes_up_and_never_ahead";
    /// Reports a command that was not launched.
    ReportsAhead: "retire::goes_up_and_never_ahead", "contract::a_random_life_with_the_core";
    /// Reports ten times the busy time.
    BusyTooLong: "retire::busy_time_is_plausible";
    /// Reports a sixteenth of the busy time.
    BusyTooShort: "retire::busy_time_is_plausible";
    /// Blocks in `poll_retired` until there is a completion.
    PollBlocks: "retire::asking_does_not_block";
    /// Never wakes the waker.
    NeverWakes: "wake::asked_before_the_launch";
    /// Does not wake for what is there already.
    LosesReadyWakes: "wake::asked_after_the_end";
    /// Keeps the first waker.
    KeepsFirstWaker: "wake::the_newest_waker_counts";
    /// Forgets a waker now and then.
    LosesSomeWakes: "wake::asked_at_random_times";
    /// Answers a deactivation without doing anything.
    IgnoresDeactivate: "deactivate::nothing_starts";
    /// Takes long to deactivate.
    DeactivatesLate: "deactivate::nothing_starts";
    /// A step never ends.
    NeverAnswers: "deactivate::nothing_starts", "interrupt::nothing_runs";
    /// Reports nothing of a held queue.
    HoldsReports: "deactivate::the_running_one_is_seen_to_finish";
    /// Answers a reactivation without doing anything.
    LosesReactivate: "deactivate::held_ones_run_later_once_and_in_order";
    /// Names too late a command as the first that it has forgotten.
    NamesTooFew: "deactivate::forgotten_ones_are_named";
    /// Cannot deactivate an idle queue.
    RefusesIdleDeactivate: "deactivate::while_idle";
    /// Refuses launches of a held queue.
    RefusesWhileHeld: "deactivate::launches_wait";
    /// Does not hold a queue that is idle.
    SkipsIdleDeactivate: "deactivate::launches_wait";
    /// Answers some deactivations without doing anything.
    SkipsSomeDeactivates: "deactivate::again_and_again";
    /// Answers an interrupt without doing anything.
    IgnoresInterrupt: "interrupt::nothing_runs", "interrupt::other_queues_get_the_device";
    /// Takes long to interrupt.
    InterruptsLate: "interrupt::nothing_runs";
    /// Answers a restore without doing anything.
    LosesRestore: "interrupt::continues_where_it_was";
    /// Restoring reactivates.
    RestoreReactivates: "interrupt::restored_is_still_deactivated";
    /// Interrupts only once after a deactivation.
    InterruptsOnce: "interrupt::deepened_and_raised_again";
    /// Counts the time of holds as busy.
    BusyWhileHeld: "interrupt::stopped_time_is_not_busy";
    /// Cannot interrupt an idle queue.
    RefusesIdleInterrupt: "interrupt::while_idle";
    /// Answers some interrupts without doing anything.
    SkipsSomeInterrupts: "interrupt::again_and_again";
    /// Says of a held queue that it is quiet while a command runs.
    QuietTooSoon: "quiet::nothing_runs", "threads::quiet_while_another_launches";
    /// Says of any queue that it is quiet.
    AlwaysQuiet: "quiet::not_without_a_hold", "quiet::nothing_runs";
    /// Never says that a held queue is quiet.
    NeverQuiet: "quiet::nothing_runs";
    /// Answers a step before it is committed.
    AnswersBeforeCommits: "commit::nothing_is_answered_before";
    /// Carries out the first queue's staged steps, and forgets those of other queues.
    CommitsOnlyTheFirst: "commit::all_that_is_staged", "commit::holds_and_ends_together";
    /// Cannot commit if nothing is staged.
    RefusesEmptyCommits: "commit::with_nothing_staged";
    /// Cannot commit what a queue had staged that has gone.
    MissesTheGone: "commit::after_a_queue_has_gone";
    /// A commit costs a preemption for each step.
    PreemptsForEach: "commit::costs_one_preemption";
    /// Says that fewer than four entries fit.
    FewEntries: "level::caps_are_consistent";
    /// Reach of an interrupt contradicts the level.
    CapsContradict: "level::caps_are_consistent";
    /// Has no code for the level that it claims.
    LacksItsLevel: "level::is_what_is_claimed";
    /// Answers steps for which there is no code.
    AnswersUnclaimedSteps: "level::other_steps_are_refused";
    /// Reports failed commands as good.
    HidesFailures:
        "failure::is_reported_for_the_one_that_failed", "failure::within_a_batch_is_in_its_range";
    /// After a failure all later commands are reported as failed.
    BlamesLaterOnes: "failure::is_reported_for_the_one_that_failed";
    /// Loses commands that are launched while a step is under way.
    LosesLaunchesDuringSteps: "threads::halves_at_once";
    /// Dropping the launching half takes for ever.
    HangsOnDrop: "lifetime::halves_go_in_any_order";
    /// No queue can be opened after the first.
    OpensOnce: "lifetime::halves_go_in_any_order";
    /// Opens fewer queues than it claims.
    RefusesQueues: "lifetime::many_queues";
    /// Opens more queues than it claims.
    TakesTooManyQueues: "lifetime::many_queues";
}

impl Defect {
    /// True if it is that something takes too long.
    pub(super) const fn takes_long(self) -> bool {
        matches!(
            self,
            Self::LaunchBlocks | Self::PollBlocks | Self::DeactivatesLate | Self::InterruptsLate
        )
    }
}
