/* Messages over Unix sockets, for both sides. */
#define _GNU_SOURCE
#include "wire.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

int send_all(int fd, const void *bytes, size_t length, int passed) {
    const char *next = bytes;
    while (length) {
        struct iovec piece = { (void *)next, length };
        union {
            char bytes[CMSG_SPACE(sizeof(int))];
            struct cmsghdr align;
        } control = { { 0 } };
        struct msghdr message = { .msg_iov = &piece, .msg_iovlen = 1 };
        if (passed >= 0) {
            message.msg_control = control.bytes;
            message.msg_controllen = sizeof control.bytes;
            struct cmsghdr *header = CMSG_FIRSTHDR(&message);
            header->cmsg_level = SOL_SOCKET;
            header->cmsg_type = SCM_RIGHTS;
            header->cmsg_len = CMSG_LEN(sizeof(int));
            memcpy(CMSG_DATA(header), &passed, sizeof passed);
        }
        ssize_t sent = sendmsg(fd, &message, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR) continue;
        if (sent <= 0) return -1;
        next += sent;
        length -= (size_t)sent;
        passed = -1;
    }
    return 0;
}

int receive_all(int fd, void *bytes, size_t length, int *passed) {
    char *next = bytes;
    while (length) {
        struct iovec piece = { next, length };
        union {
            char bytes[CMSG_SPACE(sizeof(int))];
            struct cmsghdr align;
        } control;
        struct msghdr message = { .msg_iov = &piece, .msg_iovlen = 1 };
        if (passed) {
            message.msg_control = control.bytes;
            message.msg_controllen = sizeof control.bytes;
        }
        ssize_t got = recvmsg(fd, &message, MSG_CMSG_CLOEXEC);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return -1;
        struct cmsghdr *header = passed ? CMSG_FIRSTHDR(&message) : NULL;
        if (header && header->cmsg_type == SCM_RIGHTS) memcpy(passed, CMSG_DATA(header), sizeof *passed);
        next += got;
        length -= (size_t)got;
    }
    return 0;
}

static socklen_t address_of(const char *name, struct sockaddr_un *address) {
    memset(address, 0, sizeof *address);
    address->sun_family = AF_UNIX;
    size_t length = strnlen(name, sizeof address->sun_path - 2);
    memcpy(address->sun_path + 1, name, length);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length);
}

static int named(const char *name, int (*use)(int, const struct sockaddr *, socklen_t)) {
    struct sockaddr_un address;
    socklen_t length = address_of(name, &address);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return -1;
    if (use(fd, (struct sockaddr *)&address, length) == 0) return fd;
    int why = errno;
    close(fd);
    errno = why;
    return -1;
}

int connect_to(const char *name) { return named(name, connect); }

int listen_at(const char *name) {
    int fd = named(name, bind);
    if (fd >= 0 && listen(fd, 256) == 0) return fd;
    if (fd >= 0) close(fd);
    return -1;
}

int accept_own(int listener) {
    for (;;) {
        int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        if (fd < 0) {
            if (errno == EINTR || errno == ECONNABORTED) continue;
            return -1;
        }
        struct ucred other;
        socklen_t length = sizeof other;
        if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &other, &length) == 0 && other.uid == getuid()) return fd;
        close(fd);
    }
}
