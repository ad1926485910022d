/* SPDX-License-Identifier: MIT */
/* Ninf-G's attributes of sessions, and what handles and errors say. */
#include <grpc.h>
#include <signal.h>

#define CHECK(what)                                                            \
	do {                                                                   \
		if (!(what)) {                                                 \
			printf("line %d: %s: %s\n", __LINE__, #what,           \
			       skep_grpc_error_text());                        \
			exit(1);                                               \
		}                                                              \
	} while (0)
#define SAYS(words) CHECK(strstr(skep_grpc_error_text(), words))

static grpc_session_attr_t_np long_time, short_time;
static grpc_function_handle_t add, endless;

static void test_values(void)
{
	grpc_argument_transfer_t_np copy = GRPC_ARGUMENT_TRANSFER_COPY, *was;
	grpc_function_handle_t none = {0};
	int seconds = 100000, *got;

	CHECK(grpc_session_attr_initialize_np(&none, &long_time) ==
	      GRPC_INVALID_FUNCTION_HANDLE);
	CHECK(!grpc_session_attr_initialize_np(&add, &long_time));
	CHECK(!grpc_session_attr_initialize_np(&add, &short_time));
	CHECK(!grpc_session_attr_get_np(&long_time,
					GRPC_SESSION_ATTR_SESSION_TIMEOUT,
					(void **)&got) &&
	      !*got);
	CHECK(!grpc_session_attr_release_np(got));
	CHECK(!grpc_session_attr_set_np(
		&long_time, GRPC_SESSION_ATTR_SESSION_TIMEOUT, &seconds));
	CHECK(!grpc_session_attr_get_np(&long_time,
					GRPC_SESSION_ATTR_SESSION_TIMEOUT,
					(void **)&got) &&
	      *got == seconds);
	CHECK(!grpc_session_attr_release_np(got));
	CHECK(!grpc_session_attr_set_np(
		&long_time, GRPC_SESSION_ATTR_WAIT_ARG_TRANSFER, &copy));
	CHECK(!grpc_session_attr_get_np(&long_time,
					GRPC_SESSION_ATTR_WAIT_ARG_TRANSFER,
					(void **)&was) &&
	      *was == copy);
	CHECK(!grpc_session_attr_release_np(was));
	seconds = 1;
	CHECK(!grpc_session_attr_set_np(
		&short_time, GRPC_SESSION_ATTR_SESSION_TIMEOUT, &seconds));
	seconds = -1;
	CHECK(grpc_session_attr_set_np(
		&short_time, GRPC_SESSION_ATTR_SESSION_TIMEOUT, &seconds));
	SAYS("a time limit of -1 s");
	CHECK(grpc_session_attr_set_np(
		      &long_time, GRPC_SESSION_ATTR_TRANSFER_TIMEOUT_RESULT,
		      &seconds) == GRPC_RPC_REFUSED);
	SAYS("GRPC_SESSION_ATTR_TRANSFER_TIMEOUT_RESULT has no meaning here");
	CHECK(grpc_session_attr_set_np(NULL, GRPC_SESSION_ATTR_SESSION_TIMEOUT,
				       &seconds) == GRPC_OTHER_ERROR_CODE);
}

/* Calls in time are as others. */
static void test_in_time(void)
{
	grpc_arg_stack_t *args = grpc_arg_stack_new(2);
	grpc_sessionid_t id, same;
	int x = 4, y = 0, z = 0;

	CHECK(!grpc_call_with_attr_np(&add, &long_time, 1, &y) && y == 2);
	CHECK(!grpc_call_async_with_attr_np(&add, &id, &long_time, 2, &y));
	CHECK(!grpc_wait(id) && y == 3);
	grpc_arg_stack_push_arg(args, &x);
	grpc_arg_stack_push_arg(args, &z);
	CHECK(!grpc_call_arg_stack_with_attr_np(&add, &long_time, args));
	CHECK(z == 5);
	x = 7;
	CHECK(!grpc_call_arg_stack_async_with_attr_np(&add, &long_time, args));
	CHECK(!grpc_wait_any(&same) && z == 8);
	CHECK(grpc_call_with_attr_np(&add, NULL, 1, &y) ==
	      GRPC_OTHER_ERROR_CODE);
	grpc_arg_stack_destruct(args);
}

/* Late ones are cancelled, also if nobody waits, and the others go on. */
static void test_late(void)
{
	grpc_arg_stack_t *none = grpc_arg_stack_new(1);
	grpc_sessionid_t id[3], got;
	int i, y = 0;

	CHECK(grpc_call_with_attr_np(&endless, &short_time) == GRPC_TIMEOUT_NP);
	SAYS("within its GRPC_SESSION_ATTR_SESSION_TIMEOUT");
	CHECK(grpc_call_arg_stack_with_attr_np(&endless, &short_time, none) ==
	      -1);
	for (i = 0; i < 2; i++)
		CHECK(!grpc_call_async_with_attr_np(&endless, &id[i],
						    &short_time));
	CHECK(!grpc_call_async_with_attr_np(&endless, &id[2], &long_time));
	while (grpc_probe(id[0]))
		usleep(1000);
	CHECK(grpc_wait_or(id, 2, &got) == GRPC_SESSION_FAILED);
	CHECK(grpc_get_error(got) == GRPC_TIMEOUT_NP);
	CHECK(grpc_wait(id[got == id[0]]) == GRPC_SESSION_FAILED);
	SAYS("within its GRPC_SESSION_ATTR_SESSION_TIMEOUT");
	CHECK(grpc_get_error(id[1]) == GRPC_TIMEOUT_NP);
	CHECK(!grpc_call(&add, 8, &y) && y == 9);
	CHECK(grpc_probe(id[2]) == GRPC_NOT_COMPLETED);
	CHECK(!grpc_cancel(id[2]) && grpc_wait(id[2]) == GRPC_SESSION_FAILED);
	CHECK(grpc_get_error(id[2]) == GRPC_CANCELED_NP);
	grpc_arg_stack_destruct(none);
}

static void end_session(grpc_sessionid_t id)
{
	CHECK(grpc_probe(id) == GRPC_NOT_COMPLETED);
	CHECK(!grpc_cancel(id) && grpc_wait(id) == GRPC_SESSION_FAILED);
	CHECK(grpc_get_error(id) == GRPC_CANCELED_NP);
}

/* Deadlines come in another order than the calls; the first, the last and one
 * between them go before their time. */
static void test_order(void)
{
	grpc_session_attr_t_np less = long_time;
	grpc_sessionid_t id[6];
	int i, seconds = 10000;

	CHECK(!grpc_session_attr_set_np(
		&less, GRPC_SESSION_ATTR_SESSION_TIMEOUT, &seconds));
	for (i = 0; i < 4; i++)
		CHECK(!grpc_call_async_with_attr_np(
			&endless, &id[i], i == 1 ? &less : &long_time));
	end_session(id[1]);
	end_session(id[2]);
	end_session(id[3]);
	for (i = 4; i < 6; i++)
		CHECK(!grpc_call_async_with_attr_np(&endless, &id[i],
						    &short_time));
	for (i = 4; i < 6; i++) {
		CHECK(grpc_wait(id[i]) == GRPC_SESSION_FAILED);
		CHECK(grpc_get_error(id[i]) == GRPC_TIMEOUT_NP);
	}
	end_session(id[0]);
}

static void test_handles(void)
{
	grpc_function_handle_t none = {0}, here;
	grpc_handle_attr_t_np attr;
	char *name;

	CHECK(!grpc_function_handle_get_attr_np(&add, &attr));
	CHECK(!grpc_handle_attr_get_np(&attr, GRPC_HANDLE_ATTR_FUNCNAME,
				       (void **)&name) &&
	      !strcmp(name, "gridrpc/add"));
	CHECK(!grpc_handle_attr_release_np(name));
	CHECK(!grpc_handle_attr_get_np(&attr, GRPC_HANDLE_ATTR_HOSTNAME,
				       (void **)&name) &&
	      !name);
	CHECK(!grpc_function_handle_init_with_attr_np(&here, &attr));
	CHECK(!grpc_handle_attr_destruct_np(&attr));
	CHECK(!grpc_function_handle_is_ready_np(&here));
	CHECK(!grpc_function_handle_get_error_np(&here));
	CHECK(grpc_function_handle_get_attr_np(&none, &attr) ==
	      GRPC_INVALID_FUNCTION_HANDLE);
	CHECK(grpc_function_handle_is_ready_np(&none) ==
	      GRPC_INVALID_FUNCTION_HANDLE);
	CHECK(grpc_last_error_get_np() == GRPC_INVALID_FUNCTION_HANDLE);
}

static void test_words(void)
{
	char line[200] = "";
	int saved = dup(2), pipes[2];

	CHECK(!pipe(pipes) && dup2(pipes[1], 2) == 2);
	CHECK(grpc_function_handle_default(&add, (char *)"gridrpc/none"));
	CHECK(grpc_last_error_get_np() == GRPC_FUNCTION_NOT_FOUND);
	CHECK(!grpc_perror_np((char *)"here"));
	CHECK(dup2(saved, 2) == 2);
	CHECK(read(pipes[0], line, sizeof(line) - 1) > 0);
	CHECK(!strcmp(line, "here: no worker program has the function: module "
			    "gridrpc has no function none\n"));
}

static void take_signal(int signo)
{
	(void)signo;
}

/* The library's threads run no handler: a signal that main blocks waits. */
static void test_signals(void)
{
	sigset_t set;

	signal(SIGUSR1, take_signal);
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	CHECK(!sigprocmask(SIG_BLOCK, &set, NULL) && !kill(getpid(), SIGUSR1));
	CHECK(!sigpending(&set) && sigismember(&set, SIGUSR1));
}

int main(void)
{
	CHECK(!grpc_initialize(NULL));
	CHECK(!grpc_last_error_get_np());
	CHECK(!grpc_function_handle_default(&add, (char *)"gridrpc/add"));
	CHECK(!grpc_function_handle_default(&endless,
					    (char *)"gridrpc/endless"));
	test_values();
	test_in_time();
	test_late();
	test_order();
	test_handles();
	test_words();
	test_signals();
	CHECK(!grpc_finalize());
	/* The next session has deadlines, too. */
	CHECK(!grpc_initialize(NULL));
	CHECK(!grpc_function_handle_default(&endless,
					    (char *)"gridrpc/endless"));
	CHECK(grpc_call_with_attr_np(&endless, &short_time) == GRPC_TIMEOUT_NP);
	CHECK(!grpc_finalize());
	printf("right\n");
	return 0;
}
