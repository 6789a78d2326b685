//! Who called whom: each call writes where it comes back to onto the stack, and each return reads it there.

/// Of a thread's calls those that are remembered; of deeper ones the outermost half is forgotten.
const DEPTH_MAX: usize = 256;

/// A stack is no larger, the kernel's and others: what is farther apart is of two.
const KERNELS_STACK_BYTES: u64 = 16 << 10;
const STACK_BYTES_MAX: u64 = 8 << 20;

/// Of a stack the innermost callers are told, and if they are the kernel's its outermost ones, and then who called it.
const INNERMOST: usize = 4;
const OUTERMOST: usize = 8;
const USERS: usize = 2;

/// From the innermost on, by what is behind the call; 0: nobody.
pub type Callers = [u64; CALLERS_MAX];
pub const CALLERS_MAX: usize = INNERMOST + OUTERMOST + USERS;

/// A thread's.
#[derive(Clone, Debug, Default)]
pub struct Calls {
    all: Vec<Call>,
    /// Where it was last in user code; 0: nowhere yet.
    user: u64,
}

#[derive(Clone, Copy, Debug)]
struct Call {
    /// Where on the stack it is written
    slot: u64,
    /// where it comes back to.
    back_to: u64,
}

impl Call {
    fn is_kernels(&self) -> bool {
        self.back_to >> 63 != 0
    }
}

impl Calls {
    /// A block of user code at an address is about to run. The kernel has been left, by whatever way: not all of its returns are of calls.
    #[inline]
    pub fn at_user(&mut self, address: u64) {
        self.user = address;
        while self.all.last().is_some_and(Call::is_kernels) {
            self.all.pop();
        }
    }

    /// A call has written to `slot` that it comes back to an address.
    pub fn calls(&mut self, slot: u64, back_to: u64) {
        // Who left without a return (by `longjmp`, or an exception) is known by this one being where they were.
        while self.all.last().is_some_and(|last| is_deeper(last.slot, slot)) {
            self.all.pop();
        }
        if self.all.len() == DEPTH_MAX {
            self.all.drain(..DEPTH_MAX / 2);
        }
        self.all.push(Call { slot, back_to });
    }

    /// A return has read from `slot` where it goes.
    pub fn returns(&mut self, slot: u64) {
        if let Some(at) = self.all.iter().rposition(|call| call.slot == slot) {
            self.all.truncate(at);
        }
    }

    /// Who called the code that runs now, as far as that was seen.
    pub fn callers(&self, is_kernels: bool) -> Callers {
        let nr_kernels = self.all.iter().rev().take_while(|call| call.is_kernels()).count();
        let (users, kernels) = self.all.split_at(self.all.len() - nr_kernels);
        let back_to = |call: &Call| call.back_to;
        let mut callers = Callers::default();
        if !is_kernels {
            fill(&mut callers, users.iter().rev().map(back_to));
            return callers;
        }
        let (outer, innermost) = kernels.split_at(kernels.len().saturating_sub(INNERMOST));
        let outermost = &outer[..outer.len().min(OUTERMOST)];
        // Behind an address is where a call comes back to; this one was not left by a call.
        let user = (self.user != 0).then_some(self.user + 1);
        let users = users.iter().rev().take(USERS - 1).map(back_to);
        let kernels = innermost.iter().rev().chain(outermost.iter().rev()).map(back_to);
        fill(&mut callers, kernels.chain(user).chain(users));
        callers
    }
}

fn fill(callers: &mut Callers, from: impl Iterator<Item = u64>) {
    callers.iter_mut().zip(from).for_each(|(place, caller)| *place = caller);
}

/// Those that there are.
pub fn told(callers: &Callers) -> Vec<u64> {
    callers.iter().copied().take_while(|caller| *caller != 0).collect()
}

/// The same number for the same callers, and seldom for others.
pub fn number(callers: &Callers) -> u64 {
    callers.iter().fold(0, |all: u64, caller| all.rotate_left(5) ^ caller)
}

/// Whether what is at `known` lies deeper on the same stack than a new call, or where it is.
fn is_deeper(known: u64, new: u64) -> bool {
    let bytes_max = if new >> 63 != 0 { KERNELS_STACK_BYTES } else { STACK_BYTES_MAX };
    known <= new && new - known < bytes_max
}

#[cfg(test)]
mod tests {
    use super::*;

    const STACK: u64 = 0x7fff_0000_0000;
    const KERNELS: u64 = 0xffff_c900_0000_4000;
    const TEXT: u64 = 0xffff_ffff_8100_0000;

    fn told(calls: &Calls, is_kernels: bool) -> Vec<u64> {
        super::told(&calls.callers(is_kernels))
    }

    #[test]
    fn callers_are_those_that_have_not_come_back() {
        let mut calls = Calls::default();
        calls.calls(STACK, 1);
        calls.calls(STACK - 16, 2);
        calls.calls(STACK - 64, 3);
        assert_eq!(told(&calls, false), [3, 2, 1]);
        calls.returns(STACK - 64);
        assert_eq!(told(&calls, false), [2, 1]);
        calls.calls(STACK - 48, 4);
        assert_eq!(told(&calls, false), [4, 2, 1]);
        // What was called before anybody looked.
        calls.returns(STACK + 8);
        assert_eq!(told(&calls, false), [4, 2, 1]);
    }

    #[test]
    fn who_left_without_a_return_is_no_caller() {
        let mut calls = Calls::default();
        (0..5).for_each(|depth| calls.calls(STACK - 16 * depth, depth + 1));
        // Back in the second, which calls another.
        calls.calls(STACK - 32, 9);
        assert_eq!(told(&calls, false), [9, 2, 1]);
        // Back in the first, which returns.
        calls.returns(STACK);
        assert!(told(&calls, false).is_empty());
    }

    #[test]
    fn the_kernel_is_called_by_the_code_that_was_left() {
        let mut calls = Calls::default();
        calls.calls(STACK, 1);
        calls.calls(STACK - 16, 2);
        calls.at_user(0x40_1000);
        assert_eq!(told(&calls, true), [0x40_1001, 2], "by a fault, at once");
        for depth in 0..16 {
            calls.calls(KERNELS - 16 * depth, TEXT + depth);
        }
        let kernels = [15, 14, 13, 12, 7, 6, 5, 4, 3, 2, 1, 0].map(|depth| TEXT + depth);
        assert_eq!(told(&calls, true), [&kernels[..], &[0x40_1001, 2]].concat());
        (3..16).rev().for_each(|depth| calls.returns(KERNELS - 16 * depth));
        let kernels = [2, 1, 0].map(|depth| TEXT + depth);
        assert_eq!(told(&calls, true), [&kernels[..], &[0x40_1001, 2]].concat());
        // Back in user code.
        calls.returns(KERNELS - 32);
        calls.returns(KERNELS - 16);
        calls.returns(KERNELS);
        assert_eq!(told(&calls, false), [2, 1]);
    }

    #[test]
    fn a_kernel_that_was_left_without_a_return_calls_nobody() {
        let mut calls = Calls::default();
        calls.calls(STACK, 1);
        calls.calls(KERNELS, TEXT);
        calls.calls(KERNELS - 16, TEXT + 1);
        calls.at_user(0x40_1000);
        calls.calls(STACK - 16, 2);
        assert_eq!(told(&calls, false), [2, 1]);
        assert_eq!(told(&calls, true), [0x40_1001, 2], "by the next fault");
    }

    #[test]
    fn a_deep_recursion_is_forgotten_from_outside() {
        let mut calls = Calls::default();
        (0..10_000).for_each(|depth| calls.calls(STACK - 16 * depth, depth + 1));
        assert!(calls.all.len() <= DEPTH_MAX);
        assert_eq!(told(&calls, false)[..2], [10_000, 9_999]);
    }
}
