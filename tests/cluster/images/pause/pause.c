/* Holds a pod's namespaces, and reaps its orphans. */
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static void down(int signal) { _exit(0); }

static void reap(int signal) {
  while (waitpid(-1, 0, WNOHANG) > 0);
}

int main(void) {
  signal(SIGINT, down);
  signal(SIGTERM, down);
  signal(SIGCHLD, reap);
  for (;;) pause();
}
