//! The copies that `count` asks for.

use super::model::{Scenario, TaskSpec};

/// The name of a copy of a task, which is the task's own name if there is only one; `copy` is from
/// 0.
pub(super) fn copy_name(name: &str, count: u32, copy: u32) -> String {
    if count == 1 { name.to_owned() } else { format!("{name}-{}", u64::from(copy) + 1) }
}

impl Scenario {
    /// The tasks with `count` applied: every task of the result has a `count` of 1, and the copies
    /// of a task `name` are called `name-1`, `name-2` and so on.
    ///
    /// `after` indexes the result: it is the copy with the same number if both tasks have equally
    /// many, and the first copy otherwise. `device` and `process` stay as they are: the copies
    /// share a process that the task names, and have one each if it names none.
    pub fn expanded_tasks(&self) -> Vec<TaskSpec> {
        let mut first = Vec::with_capacity(self.tasks.len());
        let mut total = 0_usize;
        for task in &self.tasks {
            first.push(total);
            total += task.count as usize;
        }
        let mut expanded = Vec::with_capacity(total);
        for task in &self.tasks {
            for copy in 0..task.count {
                let after = task.after.and_then(|after| {
                    let same = self.tasks.get(after)?.count == task.count;
                    Some(first.get(after)? + if same { copy as usize } else { 0 })
                });
                let name = copy_name(&task.name, task.count, copy);
                expanded.push(TaskSpec { name, count: 1, after, ..task.clone() });
            }
        }
        expanded
    }
}
