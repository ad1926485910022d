/* SPDX-License-Identifier: MIT */
/* Functions of this program that get strings from workers, and give them some.
 */
#include <OmniRpc.h>

#define LARGE 1048500

static char said[64], long_text[LARGE + 100];
static size_t heard;

static void take_said(char **b)
{
	snprintf(said, sizeof(said), "%s", *b);
}

static void give_answer(int i, char *question, char **text, char **state,
			char **of, char **each, int *count)
{
	static char made[8];

	*count += of[1] ? 100 : (int)strlen(of[0]);
	sprintf(made, "%s%d", question, i);
	*text = i == 1 ? NULL : made;
	if (i < 2)
		*state = i ? "st" : *state + 1;
	each[0] = of[2];
	each[1] = *text ? NULL : "";
	of[2][0] = 'C';
}

static void hear_text(char *text, char **back)
{
	heard = strlen(text);
	*back = heard == 1 ? long_text : "ok";
}

int main(int argc, char *argv[])
{
	static char *words[] = {"a", "", "bcd", "e", "fgh"};
	static char *names[] = {"one", NULL, "three"};
	char *all = NULL;

	setenv("SKEP_ERRORS", "return", 1);
	memset(long_text, 'x', sizeof(long_text) - 1);
	OmniRpcInit(&argc, &argv);
	if (OmniRpcCall("callbacks.join", words, take_said) ||
	    strcmp(said, "abcdefgh"))
		return 1;
	if (OmniRpcCall("callbacks.talk", 3, names, &all, give_answer))
		return 2;
	printf("%s\n", all);
	if (strcmp(all, "0//Chree/none/none/3;"
			"none/st/Chree//none/6;"
			"what?2/st/Chree/none/none/9;"))
		return 3;
	if (OmniRpcCall("callbacks.shout", LARGE, hear_text) || heard != LARGE)
		return 4;
	if (OmniRpcCall("callbacks.shout", LARGE + 100, hear_text) !=
		    OMRPC_E_ARGUMENTS ||
	    !strstr(OmniRpcLastErrorText(), "at most 1048560 travel"))
		return 5;
	if (OmniRpcCall("callbacks.shout", 1, hear_text) != OMRPC_E_ARGUMENTS ||
	    !strstr(OmniRpcLastErrorText(), "tell of this program") ||
	    !strstr(OmniRpcLastErrorText(), "more than 1048560 bytes"))
		return 6;
	OmniRpcFinalize();
	printf("right\n");
	return 0;
}
