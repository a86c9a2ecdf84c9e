/* Jobs of engine processes. The process that makes a unique id owns the job of that communicator: it listens at a name,
 * starts mpirun when the first rank comes, and tells every rank where the engines listen. Ranks in other processes come to
 * the same name. */
#define _GNU_SOURCE
#include "adapter.h"
#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SMALLEST_JOB = 4 };

struct job {
    uint32_t number;
    int size, ready, users, retired, failed;
    int engines[MOST_ENGINES]; /* connections; closing them ends the job */
    pid_t mpirun;
    int output; /* what mpirun wrote */
    struct job *next;
};
/* The ranks of a new communicator, until all have come. */
struct meeting {
    uint32_t number, ranks, arrived;
    int32_t places[MOST_ENGINES];
    struct job *job;
    struct meeting *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static char name[NAME_BYTES - 16];
static int listener = -1;
static struct job *jobs;
static uint32_t job_numbers;
static atomic_uint numbers;
static struct meeting *meetings;

extern char **environ;

uint32_t next_number(void) { return atomic_fetch_add(&numbers, 1) + 1; }

/* mpirun gets this process's environment without what is set for libraries of this process alone. */
static char **environment(void) {
    size_t count = 0, kept = 0;
    while (environ[count]) count++;
    char **list = calloc(count + 1, sizeof *list);
    for (size_t i = 0; list && i < count; i++)
        if (strncmp(environ[i], "LD_LIBRARY_PATH=", 16) != 0) list[kept++] = environ[i];
    return list;
}

/* Waits for the end of mpirun, so that a job that does not come up is known, and its process is not left as a zombie. */
static void *watch(void *data) {
    struct job *job = data;
    int status;
    while (waitpid(job->mpirun, &status, 0) < 0 && errno == EINTR) {}
    pthread_mutex_lock(&lock);
    job->failed = 1;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    return NULL;
}

/* The engine lies beside this library. */
static int engine_path(char *path, size_t length) {
    Dl_info here;
    if (!dladdr((void *)next_number, &here) || !here.dli_fname) return -1;
    const char *slash = strrchr(here.dli_fname, '/');
    int folder = slash ? (int)(slash - here.dli_fname) : 0;
    int written = snprintf(path, length, "%.*s/collspec-mpi-engine", folder, folder ? here.dli_fname : ".");
    return written > 0 && (size_t)written < length ? 0 : -1;
}

/* Starts mpirun in a session of its own: when this process's group is killed, mpirun lives on until the engines have ended,
 * and cleans up. */
static int start(struct job *job) {
    char engine[4096], count[16], number[16];
    if (engine_path(engine, sizeof engine) != 0) return -1;
    snprintf(count, sizeof count, "%d", job->size);
    snprintf(number, sizeof number, "%u", job->number);
    static const char *always =
        "--allow-run-as-root --oversubscribe --bind-to none --host localhost --mca plm isolated --mca mpi_yield_when_idle 1 "
        "--mca pml ob1 --mca btl self,vader --mca btl_vader_single_copy_mechanism none";
    /* an order of summation like that of the algorithm that NCCL_ALGO asks for */
    static const char *choices[] = {
        [ANY_ALGORITHM] = "",
        [RING] = " --mca coll_tuned_use_dynamic_rules 1 --mca coll_tuned_allreduce_algorithm ring --mca "
                 "coll_tuned_reduce_algorithm pipeline "
                 "--mca coll_tuned_reduce_scatter_algorithm ring",
        [TREE] = " --mca coll_tuned_use_dynamic_rules 1 --mca coll_tuned_allreduce_algorithm nonoverlapping "
                 "--mca coll_tuned_reduce_algorithm binomial",
    };
    char options[1024], *arguments[64] = { "mpirun" };
    int used = 1;
    snprintf(options, sizeof options, "%s%s", always, choices[algorithm_asked_for()]);
    for (char *rest = options, *word; (word = strsep(&rest, " ")) && used < 56;) arguments[used++] = word;
    char *last[] = { "-n", count, engine, name, number };
    memcpy(arguments + used, last, sizeof last);
    char **variables = environment();
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    job->output = memfd_create("collspec-mpirun", MFD_CLOEXEC);
    posix_spawn_file_actions_init(&files);
    posix_spawnattr_init(&attributes);
    posix_spawn_file_actions_addopen(&files, 0, "/dev/null", 0, 0);
    posix_spawn_file_actions_adddup2(&files, job->output, 1);
    posix_spawn_file_actions_adddup2(&files, job->output, 2);
    sigset_t none;
    sigemptyset(&none);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK);
    int error = variables ? posix_spawnp(&job->mpirun, "mpirun", &files, &attributes, arguments, variables) : ENOMEM;
    posix_spawn_file_actions_destroy(&files);
    posix_spawnattr_destroy(&attributes);
    free(variables);
    pthread_t thread;
    if (error == 0 && (error = pthread_create(&thread, NULL, watch, job)) == 0) pthread_detach(thread);
    if (error != 0) dprintf(job->output, "mpirun: %s", strerror(error));
    return error == 0 ? 0 : -1;
}

/* Ends the job: its engines end with their connections. */
static void end(struct job *job) {
    for (int i = 0; i < job->size; i++)
        if (job->engines[i] >= 0) close(job->engines[i]);
    for (int i = 0; i < job->size; i++) job->engines[i] = -1;
    job->retired = 1;
}

/* A job with so many engines; under the lock. */
static struct job *job_of(int engines) {
    struct job *job = jobs;
    while (job && (job->retired || job->failed || job->size < engines)) job = job->next;
    if (job || !(job = calloc(1, sizeof *job))) return job;
    job->number = ++job_numbers;
    for (job->size = SMALLEST_JOB; job->size < engines; job->size *= 2) {}
    memset(job->engines, -1, sizeof job->engines);
    job->next = jobs;
    jobs = job;
    if (start(job) != 0) job->failed = 1;
    return job;
}

/* Waits until all ranks of a new communicator are here, and finds them a job; under the lock. A rank's engine is that of its
 * device, so that a host thread has one engine for all its communicators: Open MPI 4.1 can wait for ever when a process
 * makes two at once. */
static struct meeting *meet(const struct hello *hello) {
    struct meeting *meeting = meetings;
    while (meeting && meeting->number != hello->number) meeting = meeting->next;
    if (!meeting) {
        if (!(meeting = calloc(1, sizeof *meeting))) return NULL;
        meeting->number = hello->number;
        meeting->ranks = hello->ranks;
        meeting->next = meetings;
        meetings = meeting;
    }
    if (hello->ranks != meeting->ranks || hello->rank >= meeting->ranks) return NULL;
    meeting->places[hello->rank] = (int32_t)hello->device;
    if (++meeting->arrived == meeting->ranks) {
        int n = (int)meeting->ranks, most = n - 1, distinct = 1;
        for (int i = 0; i < n; i++) {
            if (meeting->places[i] > most) most = meeting->places[i];
            for (int j = 0; j < i; j++) distinct &= meeting->places[i] != meeting->places[j];
        }
        for (int i = 0; i < n && (!distinct || most >= MOST_ENGINES); i++) meeting->places[i] = i;
        meeting->job = job_of(distinct && most < MOST_ENGINES ? most + 1 : n);
        pthread_cond_broadcast(&changed);
    }
    while (meeting->arrived < meeting->ranks) pthread_cond_wait(&changed, &lock);
    return meeting;
}

/* A rank's connection: it is answered when the job is up, and counts as long as it lasts. */
static void serve_rank(int fd, const struct hello *hello) {
    struct welcome welcome = { .code = SUCCESS };
    pthread_mutex_lock(&lock);
    struct job *job = jobs;
    if (hello->from == FOR_PART_OF_COMMUNICATOR) {
        while (job && job->number != hello->number) job = job->next;
    } else {
        struct meeting *meeting = meet(hello);
        job = meeting ? meeting->job : NULL;
        if (meeting) memcpy(welcome.places, meeting->places, sizeof welcome.places);
    }
    while (job && job->ready < job->size && !job->failed) pthread_cond_wait(&changed, &lock);
    if (!job || job->failed) {
        welcome.code = SYSTEM_ERROR;
        ssize_t got = job ? pread(job->output, welcome.text, sizeof welcome.text - 1, 0) : 0;
        if (got <= 0) snprintf(welcome.text, sizeof welcome.text, "the MPI job has ended");
        for (char *c = welcome.text; *c; c++)
            if (*c == '\n') *c = ' ';
    } else {
        job->users++;
        welcome.job = job->number;
        snprintf(welcome.engines, sizeof welcome.engines, "%s-%u", name, job->number);
    }
    pthread_mutex_unlock(&lock);
    char stuck = 0;
    if (send_all(fd, &welcome, sizeof welcome, -1) == 0 && receive_all(fd, &stuck, 1, NULL) == 0) stuck = 1;
    if (welcome.code == SUCCESS) {
        pthread_mutex_lock(&lock);
        if (stuck) job->retired = 1;
        if (--job->users == 0 && job->retired) end(job);
        pthread_mutex_unlock(&lock);
    }
    close(fd);
}

/* A connection of an engine lasts as long as its job. */
static void keep_engine(int fd, const struct hello *hello) {
    pthread_mutex_lock(&lock);
    struct job *job = jobs;
    while (job && job->number != hello->number) job = job->next;
    if (job && hello->rank < (uint32_t)job->size && job->engines[hello->rank] < 0) {
        job->engines[hello->rank] = fd;
        job->ready++;
        pthread_cond_broadcast(&changed);
    } else {
        close(fd);
    }
    pthread_mutex_unlock(&lock);
}

static void *greet(void *data) {
    int fd = *(int *)data;
    free(data);
    struct hello hello;
    if (receive_all(fd, &hello, sizeof hello, NULL) != 0 || hello.ranks > MOST_ENGINES)
        close(fd);
    else if (hello.from == FROM_ENGINE)
        keep_engine(fd, &hello);
    else
        serve_rank(fd, &hello);
    return NULL;
}

static void *listen_for_all(void *unused) {
    (void)unused;
    for (;;) {
        int *fd = malloc(sizeof *fd);
        pthread_t thread;
        if (!fd || (*fd = accept_own(listener)) < 0) return NULL;
        if (pthread_create(&thread, NULL, greet, fd) == 0) {
            pthread_detach(thread);
        } else {
            close(*fd);
            free(fd);
        }
    }
}

int new_identity(struct identity *identity) {
    int code = SUCCESS;
    pthread_mutex_lock(&lock);
    if (listener < 0) {
        uint64_t random;
        pthread_t thread;
        if (getrandom(&random, sizeof random, 0) != sizeof random) code = SYSTEM_ERROR;
        snprintf(name, sizeof name, "collspec-mpi-%016llx", (unsigned long long)random);
        if (code == SUCCESS && (listener = listen_at(name)) < 0) code = SYSTEM_ERROR;
        if (code == SUCCESS && pthread_create(&thread, NULL, listen_for_all, NULL) != 0)
            code = SYSTEM_ERROR;
        else if (code == SUCCESS)
            pthread_detach(thread);
    }
    memset(identity, 0, sizeof *identity);
    memcpy(identity->owner, name, sizeof name);
    identity->number = next_number();
    pthread_mutex_unlock(&lock);
    return code;
}

int join_job(const char *owner, const struct hello *hello, struct welcome *welcome, int *link) {
    int fd = connect_to(owner);
    if (fd < 0) return say(SYSTEM_ERROR, "the process that made the unique id has gone");
    if (send_all(fd, hello, sizeof *hello, -1) != 0 || receive_all(fd, welcome, sizeof *welcome, NULL) != 0)
        welcome->code = SYSTEM_ERROR;
    if (welcome->code != SUCCESS) {
        close(fd);
        return say(welcome->code, "no MPI job: %s", welcome->text);
    }
    *link = fd;
    return SUCCESS;
}
