/* SPDX-License-Identifier: MIT */
/* C++ exceptions that cross the border of a library in both directions. */
#include <stdexcept>
#include <string>

struct own_error {
	int number;
};

void part_throws(int n);
int part_catches(void (*call)(int), int n);

#ifdef PART
struct guard {
	int *count;
	~guard()
	{
		++*count;
	}
};

void part_throws(int n)
{
	if (n & 1)
		throw own_error{n};
	throw std::runtime_error("of the part " + std::to_string(n));
}

int part_catches(void (*call)(int), int n)
{
	int count = 0;

	try {
		guard one{&count}, two{&count};
		call(n);
	} catch (const std::out_of_range &e) {
		return count + std::string(e.what()).size();
	}
	return -1;
}
#else
#include <cstdio>
#include <thread>

static void throw_back(int n)
{
	throw std::out_of_range(std::string(n, 'x'));
}

static int try_once(int n)
{
	try {
		part_throws(n);
	} catch (const own_error &e) {
		return e.number;
	} catch (const std::exception &e) {
		return std::string(e.what()) ==
				       "of the part " + std::to_string(n)
			       ? n
			       : -1;
	}
	return -1;
}

int main()
{
	int good = 0, other = 0;
	std::thread thread([&] {
		for (int i = 0; i < 500; i++)
			other += try_once(i) == i;
	});

	for (int i = 0; i < 500; i++)
		good += try_once(i) == i &&
			part_catches(throw_back, i) == i + 2;
	thread.join();
	std::printf("%d %d\n", good, other);
	return good == 500 && other == 500 ? 0 : 1;
}
#endif
