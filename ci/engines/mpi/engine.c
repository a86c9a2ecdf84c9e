/* One process of the MPI job, which makes the real calls of MPI for one rank.
 *
 *     collspec-mpi-engine OWNER JOB
 *
 * OWNER is the name at which the process that started the job listens; the connection to it is this process's life. Each
 * communicator of a rank has a connection and a thread, so calls on different communicators do not wait for each other. */
#define _GNU_SOURCE
#include "engine.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MOST_PARTS = 4096 };
/* Communicators that were made and are waiting for a connection of their own. */
static MPI_Comm parts[MOST_PARTS];
static char part_is_used[MOST_PARTS];
static pthread_mutex_t parts_lock = PTHREAD_MUTEX_INITIALIZER;

static int keep_part(MPI_Comm comm) {
    int handle = 0;
    pthread_mutex_lock(&parts_lock);
    while (handle < MOST_PARTS && part_is_used[handle]) handle++;
    if (handle < MOST_PARTS) {
        part_is_used[handle] = 1;
        parts[handle] = comm;
    }
    pthread_mutex_unlock(&parts_lock);
    return handle < MOST_PARTS ? handle : -1;
}

static MPI_Comm take_part(int handle) {
    MPI_Comm comm = MPI_COMM_NULL;
    pthread_mutex_lock(&parts_lock);
    if (handle >= 0 && handle < MOST_PARTS && part_is_used[handle]) {
        part_is_used[handle] = 0;
        comm = parts[handle];
    }
    pthread_mutex_unlock(&parts_lock);
    return comm;
}

/* NCCL's code for what a function of MPI returned, and MPI's text. */
static void answer(struct reply *reply, int error) {
    if (error == MPI_SUCCESS) return;
    int class = MPI_ERR_OTHER, length = 0;
    char text[MPI_MAX_ERROR_STRING + 1] = "";
    MPI_Error_class(error, &class);
    MPI_Error_string(error, text, &length);
    snprintf(reply->text, sizeof reply->text, "%s", text);
    int refused = class == MPI_ERR_COUNT || class == MPI_ERR_TYPE || class == MPI_ERR_OP || class == MPI_ERR_ROOT;
    reply->code = refused || class == MPI_ERR_RANK || class == MPI_ERR_ARG ? INVALID_ARGUMENT : INTERNAL_ERROR;
}

static int create(MPI_Comm *comm, const int *engines, int count, int number) {
    MPI_Group all = MPI_GROUP_NULL, group = MPI_GROUP_NULL;
    int error = MPI_Comm_group(MPI_COMM_WORLD, &all);
    if (error == MPI_SUCCESS) error = MPI_Group_incl(all, count, engines, &group);
    if (error == MPI_SUCCESS) error = MPI_Comm_create_group(MPI_COMM_WORLD, group, number, comm);
    if (all != MPI_GROUP_NULL) MPI_Group_free(&all);
    if (group != MPI_GROUP_NULL) MPI_Group_free(&group);
    return error;
}

/* A new communicator becomes a part that waits for its own connection. */
static void hand_out(struct reply *reply, int error, const MPI_Comm *where) {
    MPI_Comm made = *where;
    answer(reply, error);
    reply->handle = -1;
    if (error != MPI_SUCCESS || made == MPI_COMM_NULL) return;
    MPI_Comm_set_errhandler(made, MPI_ERRORS_RETURN);
    MPI_Comm_size(made, &reply->ranks);
    MPI_Comm_rank(made, &reply->rank);
    reply->handle = keep_part(made);
    if (reply->handle < 0) reply->code = SYSTEM_ERROR;
}

struct connection {
    int fd, memory;
    MPI_Comm comm;
    char *map;
    uint64_t mapped;
};

/* The whole shared memory is mapped. */
static int see(struct connection *self, uint64_t bytes) {
    if (bytes <= self->mapped) return 0;
    if (self->map) munmap(self->map, self->mapped);
    self->map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, self->memory, 0);
    self->mapped = self->map == MAP_FAILED ? 0 : bytes;
    if (self->map == MAP_FAILED) self->map = NULL;
    return self->map ? 0 : -1;
}

/* Requests until the other side has gone. */
static void *serve(void *data) {
    struct connection self = { *(int *)data, -1, MPI_COMM_NULL, NULL, 0 };
    free(data);
    struct request request;
    int passed = -1;
    while (receive_all(self.fd, &request, sizeof request, &passed) == 0 && request.kind != END) {
        if (passed >= 0) self.memory = passed;
        passed = -1;
        struct reply reply = { .code = SUCCESS };
        size_t each = request.kind == CALLS ? sizeof(struct call) : sizeof(int);
        size_t more = request.kind == CALLS || request.kind == CREATE ? request.count : 0;
        void *list = malloc(more * each + 1);
        if (!list || (more && receive_all(self.fd, list, more * each, NULL) != 0)) {
            free(list);
            break;
        }
        MPI_Comm made = MPI_COMM_NULL;
        if (request.kind == CREATE) {
            answer(&reply, create(&self.comm, list, (int)more, request.a));
            if (reply.code == SUCCESS) MPI_Comm_set_errhandler(self.comm, MPI_ERRORS_RETURN);
        } else if (request.kind == ADOPT) {
            self.comm = take_part(request.a);
            if (self.comm == MPI_COMM_NULL) reply.code = INTERNAL_ERROR;
        } else if (request.kind == SPLIT) {
            int colour = request.a < 0 ? MPI_UNDEFINED : request.a;
            hand_out(&reply, MPI_Comm_split(self.comm, colour, request.b, &made), &made);
        } else if (see(&self, request.bytes) != 0) {
            reply.code = SYSTEM_ERROR;
        } else {
            answer(&reply, make_calls(self.comm, self.map, list, request.count));
        }
        free(list);
        if (send_all(self.fd, &reply, sizeof reply, -1) != 0) break;
    }
    if (request.kind == END && self.comm != MPI_COMM_NULL) MPI_Comm_free(&self.comm);
    if (self.map) munmap(self.map, self.mapped);
    if (self.memory >= 0) close(self.memory);
    close(self.fd);
    return NULL;
}

/* When the process that started the job has gone or wants no more of it, this process ends at once, whatever a call waits
 * for. */
static void *live_with_owner(void *data) {
    char byte;
    receive_all(*(int *)data, &byte, 1, NULL);
    _exit(0);
}

int main(int count, char **arguments) {
    if (count != 3) return 2;
    int owner = connect_to(arguments[1]), rank, given;
    pthread_t thread;
    if (owner < 0 || pthread_create(&thread, NULL, live_with_owner, &owner) != 0) return 1;
    MPI_Init_thread(&count, &arguments, MPI_THREAD_MULTIPLE, &given);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    char name[NAME_BYTES + 32];
    snprintf(name, sizeof name, "%s-%s-%d", arguments[1], arguments[2], rank);
    int listener = listen_at(name);
    if (given != MPI_THREAD_MULTIPLE || make_types() != 0 || listener < 0) {
        fprintf(stderr, "this MPI has no MPI_THREAD_MULTIPLE, or the name %s cannot be had\n", name);
        return 1;
    }
    struct hello hello = { .from = FROM_ENGINE, .number = (uint32_t)atoi(arguments[2]), .rank = (uint32_t)rank };
    if (send_all(owner, &hello, sizeof hello, -1) != 0) return 1;
    for (;;) {
        int *fd = malloc(sizeof *fd);
        if (!fd || (*fd = accept_own(listener)) < 0) return 1;
        if (pthread_create(&thread, NULL, serve, fd) != 0) {
            close(*fd);
            free(fd);
        } else {
            pthread_detach(thread);
        }
    }
}
