/*
 * LD_PRELOAD: a bind to every address becomes a bind to loopback. RocketMQ's proxy has no option for the address of its
 * gRPC and remoting ports, and tests must not offer a broker to the network.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

typedef int (*bind_function)(int, const struct sockaddr *, socklen_t);

int bind(int fd, const struct sockaddr *address, socklen_t length) {
  static bind_function real;
  if (!real) real = (bind_function)dlsym(RTLD_NEXT, "bind");

  if (address->sa_family == AF_INET) {
    struct sockaddr_in four;
    memcpy(&four, address, sizeof four);
    if (four.sin_addr.s_addr == INADDR_ANY) {
      four.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
      return real(fd, (struct sockaddr *)&four, sizeof four);
    }
  } else if (address->sa_family == AF_INET6) {
    struct sockaddr_in6 six;
    memcpy(&six, address, sizeof six);
    if (IN6_IS_ADDR_UNSPECIFIED(&six.sin6_addr)) {
      /* ::ffff:127.0.0.1, since such a socket also takes IPv4. */
      static const unsigned char mapped[16] = {[10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1};
      memcpy(&six.sin6_addr, mapped, sizeof mapped);
      return real(fd, (struct sockaddr *)&six, sizeof six);
    }
  }
  return real(fd, address, length);
}
