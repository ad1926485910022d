/* SPDX-License-Identifier: MIT */
/* C++: exceptions through many frames, in threads, with thread-local objects. */
#include <cstdio>
#include <future>
#include <iostream>
#include <map>
#include <memory>
#include <mutex>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

static int destroyed;

struct guard {
	~guard()
	{
		destroyed++;
	}
};

static int thrower(int n)
{
	guard g;

	if (n == 0)
		throw std::runtime_error("bottom");
	return thrower(n - 1) + 1;
}

struct counted {
	int value = 7;
	~counted();
};

static std::mutex mutex;
static int ended;

counted::~counted()
{
	std::lock_guard<std::mutex> lock(mutex);

	ended += value;
}

static thread_local counted own;

static void in_thread(int id, std::string *out)
{
	try {
		own.value += id;
		thrower(id);
	} catch (const std::exception &e) {
		std::ostringstream s;

		s << "thread " << id << " caught " << e.what();
		*out = s.str();
	}
}

static int again()
{
	try {
		try {
			throw 5;
		} catch (int &n) {
			n++;
			throw;
		}
	} catch (int n) {
		return n;
	}
}

int main()
{
	std::vector<std::thread> threads;
	std::string texts[4];
	std::map<std::string, double> map;

	try {
		thrower(100);
	} catch (const std::runtime_error &e) {
		std::cout << "caught " << e.what() << ", " << destroyed
			  << " destroyed\n";
	}
	std::cout << "again " << again() << "\n";
	for (int i = 0; i < 4; i++)
		threads.emplace_back(in_thread, i, &texts[i]);
	for (auto &t : threads)
		t.join();
	for (auto &t : texts)
		std::cout << t << "\n";
	std::cout << "ended " << ended << "\n";
	auto future = std::async(std::launch::async, [] {
		if (true)
			throw std::out_of_range("from the future");
		return 1;
	});
	try {
		future.get();
	} catch (const std::out_of_range &e) {
		std::cout << e.what() << "\n";
	}
	for (int i = 0; i < 1000; i++)
		map["key" + std::to_string(i)] = i * 1.5;
	std::cout << map.size() << " " << map["key77"] << std::endl;
	try {
		std::string("x").at(10);
	} catch (...) {
		std::cout << "any" << std::endl;
	}
	return 0;
}
