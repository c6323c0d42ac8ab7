// The chat page of the guide with the `useStream` of @langchain/react, which speaks the protocol with channels.
import { useMessageMetadata, useStream } from "@langchain/react";
import { useState } from "react";
import { createRoot } from "react-dom/client";

function Chat() {
  const [threadId, setThreadId] = useState(new URLSearchParams(location.search).get("thread"));
  const chat = useStream<{ messages: any[] }, string>({
    apiUrl: "http://127.0.0.1:8000",
    assistantId: "shop",
    threadId,
    onThreadId: (id) => {
      setThreadId(id);
      history.replaceState(null, "", `?thread=${id}`);
    },
  });
  const send = (text: string, forkFrom?: string) =>
    void chat.submit({ messages: [{ type: "human", content: text }] }, { forkFrom });

  return (
    <main>
      {chat.messages.map((message, index) => (
        <Line key={message.id ?? index} message={message} />
      ))}
      {typeof chat.interrupt?.value === "string" && (
        <p role="alertdialog">
          {chat.interrupt.value} <button onClick={() => void chat.respond("yes")}>Yes</button>
        </p>
      )}
      {chat.error != null && <p role="alert">{String(chat.error)}</p>}
      <form
        onSubmit={(event) => {
          event.preventDefault();
          send(String(new FormData(event.currentTarget).get("text")));
          event.currentTarget.reset();
        }}
      >
        <input name="text" aria-label="Message" /> <button disabled={chat.isLoading}>Send</button>
        {chat.isLoading && <button type="button" onClick={() => void chat.stop()}>Stop</button>}
      </form>
    </main>
  );

  function Line({ message }: { message: any }) {
    const parent = useMessageMetadata(chat, message.id)?.parentCheckpointId;
    const edit = () => {
      const changed = prompt("Edit", message.text);
      if (changed) send(changed, parent);
    };
    return (
      <p data-type={message.type}>
        <span>{message.text}</span> {message.type === "human" && <button onClick={edit}>Edit</button>}
      </p>
    );
  }
}

createRoot(document.getElementById("root")!).render(<Chat />);
