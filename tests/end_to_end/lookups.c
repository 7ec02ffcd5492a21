/* lookups NAME NUMBER PAUSE: look the name up NUMBER times, and print the addresses that each lookup found on one line.
   PAUSE is in seconds. */
#include <arpa/inet.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

int main(int argc, char **argv) {
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found;
    for (int left = argc == 4 ? atoi(argv[2]) : 0; left > 0; left--) {
        if (getaddrinfo(argv[1], "80", &hints, &found))
            continue;
        for (struct addrinfo *one = found; one; one = one->ai_next) {
            char text[INET6_ADDRSTRLEN];
            const void *address = one->ai_family == AF_INET
                ? (const void *)&((struct sockaddr_in *)one->ai_addr)->sin_addr
                : (const void *)&((struct sockaddr_in6 *)one->ai_addr)->sin6_addr;
            printf("%s ", inet_ntop(one->ai_family, address, text, sizeof text));
        }
        printf("\n");
        fflush(stdout);
        freeaddrinfo(found);
        usleep((useconds_t)(1e6 * atof(argv[3])));
    }
    return 0;
}
