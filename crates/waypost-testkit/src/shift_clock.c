/* Runs a program whose wall clock is wrong: shift_clock SECONDS PROGRAM [ARGUMENT]...
 *
 * A preloaded library does not reach a program that asks the kernel itself, and the vDSO answers without a system call.
 * So this traces the program and all that it starts, hides the vDSO from each, and shifts the kernel's answers. */
#define _GNU_SOURCE
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define THREADS 4096

/* Threads that are in a call that returns the wall clock, and where each wants the answer. */
static struct { pid_t thread; uint64_t answer; } waiting[THREADS];

static long word(pid_t thread, uint64_t address) {
    return ptrace(PTRACE_PEEKDATA, thread, address, 0);
}

static struct __ptrace_syscall_info info(pid_t thread) {
    struct __ptrace_syscall_info found = {0};
    ptrace(PTRACE_GET_SYSCALL_INFO, thread, sizeof found, &found);
    return found;
}

/* At the start of a program its stack has the number of arguments, these, 0, the variables, 0, and the auxiliary vector. */
static void hide_vdso(pid_t thread) {
    uint64_t at = info(thread).stack_pointer;
    at += sizeof(long) * (word(thread, at) + 2);
    while (word(thread, at) != 0) at += sizeof(long);
    for (at += sizeof(long); word(thread, at) != AT_NULL; at += 2 * sizeof(long))
        if (word(thread, at) == AT_SYSINFO_EHDR) ptrace(PTRACE_POKEDATA, thread, at, (long)AT_IGNORE);
}

static void shift(pid_t thread, long seconds) {
    struct __ptrace_syscall_info call = info(thread);
    uint64_t *args = call.entry.args;
    if (call.op == PTRACE_SYSCALL_INFO_ENTRY) {
        int is_wall = call.entry.nr == SYS_clock_gettime && (args[0] == CLOCK_REALTIME || args[0] == CLOCK_REALTIME_COARSE);
        uint64_t answer = is_wall ? args[1] : call.entry.nr == SYS_gettimeofday ? args[0] : 0;
        waiting[thread % THREADS].thread = thread;
        waiting[thread % THREADS].answer = answer;
    } else if (call.op == PTRACE_SYSCALL_INFO_EXIT && !call.exit.is_error && waiting[thread % THREADS].thread == thread) {
        uint64_t answer = waiting[thread % THREADS].answer;
        if (answer) ptrace(PTRACE_POKEDATA, thread, answer, word(thread, answer) + seconds);
    }
}

int main(int count, char **arguments) {
    int ready[2], status, ended = 0;
    if (count < 3 || pipe2(ready, O_CLOEXEC)) return 2;
    pid_t program = fork();
    if (program == 0) {
        char byte;
        close(ready[1]);
        if (read(ready[0], &byte, 1) == 1) execvp(arguments[2], arguments + 2);
        _exit(127);
    }
    long options = PTRACE_O_EXITKILL | PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEEXEC | PTRACE_O_TRACECLONE
        | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK;
    if (ptrace(PTRACE_SEIZE, program, 0, options) || ptrace(PTRACE_INTERRUPT, program, 0, 0)) return 2;
    if (write(ready[1], "x", 1) != 1) return 2;
    for (;;) {
        pid_t thread = waitpid(-1, &status, __WALL);
        if (thread < 0 && errno == EINTR) continue;
        if (thread < 0) break;
        if (!WIFSTOPPED(status)) {
            if (thread == program) ended = status;
            continue;
        }
        int signal = WSTOPSIG(status), event = status >> 16;
        if (signal == (SIGTRAP | 0x80)) shift(thread, atol(arguments[1]));
        if (event == PTRACE_EVENT_EXEC) hide_vdso(thread);
        ptrace(PTRACE_SYSCALL, thread, 0, event || signal == (SIGTRAP | 0x80) ? 0 : signal);
    }
    if (!WIFSIGNALED(ended)) return WEXITSTATUS(ended);
    signal(WTERMSIG(ended), SIG_DFL);
    raise(WTERMSIG(ended));
    return 2;
}
