//! Functions that a half which wraps another one passes on.

/// Passes on what a launching half is told and says beside launches, in the implementation of
/// [`Submit`](crate::hal::Submit) for a half that has another one in the field of this name: its
/// room, the launch mode, bursts, and what another scheduler does.
///
/// [`Submit::seal`](crate::hal::Submit::seal) is not among them, since its error may be another
/// type's.
#[macro_export]
macro_rules! pass_on_submit {
    ($below:tt) => {
        fn room(&self) -> Option<u32> {
            self.$below.room()
        }

        fn set_launch_mode(&mut self, mode: $crate::hal::LaunchMode) {
            self.$below.set_launch_mode(mode);
        }

        fn is_in_burst(&self) -> bool {
            self.$below.is_in_burst()
        }

        fn end_burst(&mut self) {
            self.$below.end_burst();
        }

        fn is_unattended(&self) -> bool {
            self.$below.is_unattended()
        }

        fn is_held(&self) -> bool {
            self.$below.is_held()
        }
    };
}

/// Passes on what a half that watches completions does beside reporting them, in the implementation
/// of [`Retire`](crate::hal::Retire) for a half that has another one in the field of this name: who
/// keeps it, wakes and forecasts.
#[macro_export]
macro_rules! pass_on_retire {
    ($below:tt) => {
        fn kept_by_caller(&self) -> $crate::hal::Kept {
            self.$below.kept_by_caller()
        }

        fn wake_on_retire(&mut self, waker: &::core::task::Waker) -> bool {
            self.$below.wake_on_retire(waker)
        }

        fn forecast(&mut self, cmd: $crate::id::CmdId) -> Option<$crate::hal::Forecast> {
            self.$below.forecast(cmd)
        }
    };
}
